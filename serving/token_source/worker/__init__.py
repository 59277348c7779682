"""vLLM's worker on a CPU, made faster where it costs most, and made to tell the routes of tokens."""

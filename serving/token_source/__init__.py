"""The token source: the only room that runs vLLM's engine."""

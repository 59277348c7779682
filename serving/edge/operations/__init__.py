"""Operations: what vLLM's servers ask of an engine beside requests, and what emulated devices make of it."""

"""A token model's files: what they say of it, without vLLM."""

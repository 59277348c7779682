"""Trains the bundled token model: a small Qwen3-MoE, on the corpus, on a CPU, in less than an hour."""

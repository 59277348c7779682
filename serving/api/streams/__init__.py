"""Streams of text over HTTP: by short ways past what vLLM's application does for each, and for each chunk."""

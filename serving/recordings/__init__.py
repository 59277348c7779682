"""Recorded text, which vLLM made before: its file, the answer to a request, and the load that calls for it."""

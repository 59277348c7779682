"""Real text that vLLM made before: its file, what a request gets of it, and when it is needed."""

"""Servers of tests as forks of a Python that has vLLM imported: each is ready in a third of the time."""

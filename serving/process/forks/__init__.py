"""Forks: of this process, with what it has imported, and of one that is kept for whoever wants more of them."""

"""Token sources: their actors, what is in each, and what takes its place when it dies."""

"""Token sources: their actors, the requests in each, and its replacement when it dies."""

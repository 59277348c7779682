"""The home of Ray: actors, their connections, and their recovery."""

"""The home of Ray: actors, what connects them, and what brings them back."""

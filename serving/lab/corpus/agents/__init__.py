"""What agents are answered: calls of tools, and answers as JSON."""

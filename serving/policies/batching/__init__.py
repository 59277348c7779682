"""Who begins next: one policy a file, by its name."""

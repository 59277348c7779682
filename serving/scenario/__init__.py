"""What a user writes, parsed once into types."""

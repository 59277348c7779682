"""A scenario: a user's description of an emulation, parsed once into types."""

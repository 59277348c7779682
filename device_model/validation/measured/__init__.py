"""Measurements of a GPU that a user made, and the figures of an emulated one that are fitted to them."""

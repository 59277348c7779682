"""Forks: Ray's workers as forks of processes that have imported what they need already."""

"""Continuous batching: what a device's next step computes."""

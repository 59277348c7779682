"""Supervision of parts that die: when they begin again, and with which requests."""

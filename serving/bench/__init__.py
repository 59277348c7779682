"""Benchmarks of this machine: how fast steps, decisions, scrapes and streams are."""

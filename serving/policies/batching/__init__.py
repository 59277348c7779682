"""Batching policies, one a file: the order in which waiting requests begin."""

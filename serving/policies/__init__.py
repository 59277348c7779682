"""Policies: small pure objects, each of which decides one thing. None of them reads a clock."""

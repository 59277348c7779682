"""Policies: small objects by which the scheduler, the pricer and the router decide."""

"""What is done in which order: small objects that the scheduler, the pricer and the router are given."""

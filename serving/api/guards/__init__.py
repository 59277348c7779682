"""Guards before the HTTP application: access, sizes and counts of requests."""

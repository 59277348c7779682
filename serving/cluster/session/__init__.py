"""Sessions of Ray: one of our own, the process that starts one ahead of its driver, or one that is there already."""

"""A scenario in virtual time, in one process."""

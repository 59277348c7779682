"""Which experts a step touches, and which of them HB has."""

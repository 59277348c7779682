"""Experts: those that a step touches, and those of them that HB holds."""

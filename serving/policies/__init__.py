"""Policies: small objects that decide one thing each, without a clock, a socket or an actor."""

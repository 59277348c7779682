"""Endpoints of actors: the methods that other processes call, handed on to the plain objects that the actors own."""

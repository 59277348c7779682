"""Desks: the methods of actors that other processes call, handed on to the plain objects that the actors own."""

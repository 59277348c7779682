"""Streams between processes, over ZeroMQ: tokens from the source, releases to the edge."""

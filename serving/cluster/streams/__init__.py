"""Streams and calls between processes: tokens from the source, releases to the edge."""

"""Traces that users bring: one file here for each format, all of which make `Row`s.

`rows` holds what they have in common, `formats` knows which file is of which, and `replay` puts rows in order, cuts
them to a window, scales their rate and repeats them.
"""

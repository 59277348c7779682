"""Specs: the figures of papers and data sheets, as TOML with sources, and their readers."""

"""What the papers and data sheets print, as TOML with sources, and what reads it."""

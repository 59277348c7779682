"""The measurement beside the papers: tables, claims and pictures."""

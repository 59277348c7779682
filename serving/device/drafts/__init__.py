"""What a traced device drafts: stand-ins from routes, or drafts that the token model executes."""

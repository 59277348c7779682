"""What this machine can do: how fast steps, decisions, scrapes and streams are."""

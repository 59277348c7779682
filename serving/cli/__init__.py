"""The `foreserve` command: one file a command, with its arguments and what it wires together."""

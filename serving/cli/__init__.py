"""The `foreserve` command: its commands, and the wiring of what they bring up."""

"""The `foreserve` command: its commands, and the start of an emulation."""

"""The `foreserve` command: its commands, and the wiring of an emulation."""

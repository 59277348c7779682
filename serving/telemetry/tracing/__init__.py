"""What can be seen of an emulation beside its metrics: traces, log lines, and the log of its steps."""

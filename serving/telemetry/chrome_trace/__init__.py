"""Step logs as traces that ui.perfetto.dev and chrome://tracing show."""

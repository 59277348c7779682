"""What is seen of an emulation: metrics, traces, logs of steps and requests, status."""

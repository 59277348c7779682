"""What runs are measured by: targets and percentiles of latencies, and what they cost."""

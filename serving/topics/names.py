"""The topics that requests, workloads, placement and the bundled model's corpus know: those of Stratum, Sec. 6.1."""

TOPICS = ("legal", "humanities", "cs", "science", "math", "logic")
OTHER = "other"
"""The topic of a prompt about none of `TOPICS`."""
NAMES = (*TOPICS, OTHER)

"""The topics that requests, workloads, placement and the bundled model's corpus know: those of Stratum, Sec. 6.1."""

from serving.nearest_name import meant

TOPICS = ("legal", "humanities", "cs", "science", "math", "logic")
OTHER = "other"
"""The topic of a prompt about none of `TOPICS`."""
NAMES = (*TOPICS, OTHER)


def unknown_topic(name: str) -> str:
    """Return the clause that there is no such topic, and which there are."""
    return f"there is no topic {name!r}{meant(name, NAMES)}; allowed are {', '.join(NAMES)}."

"""What each actor says when it is asked how it is."""

from typing import NamedTuple

from serving.types import Dropped


class Heartbeat(NamedTuple):
    """For how many real seconds a loop of it has been overdue, and what was sent to it and could not be read since it
    said so last."""

    overdue_s: float = 0.0
    dropped: Dropped | None = None

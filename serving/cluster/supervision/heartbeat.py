"""What each actor says when it is asked how it is."""

import os
from typing import NamedTuple

from serving.cluster.actor_process import ActorProcess, this_node
from serving.types import Dropped


class Heartbeat(NamedTuple):
    """Its process; for how many real seconds a loop of it has been overdue; and what was sent to it and could not be
    read since it said so last."""

    process: ActorProcess
    overdue_s: float = 0.0
    dropped: Dropped | None = None

    @staticmethod
    def of_this(overdue_s: float = 0.0, dropped: Dropped | None = None) -> "Heartbeat":
        """That of the actor in this process."""
        return Heartbeat(ActorProcess(this_node(), os.getpid()), overdue_s, dropped)

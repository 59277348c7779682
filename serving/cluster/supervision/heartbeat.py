"""Heartbeat: the answer of an actor to its watchdog."""

import os
from typing import NamedTuple

from serving.cluster.actor_process import ActorProcess, this_node
from serving.types import DroppedMessages


class Heartbeat(NamedTuple):
    """An actor's process, the real seconds by which a loop of it is overdue, the messages to it that could not be read
    since it began, and the path of the socket at which it answers `pulse` too, if it does."""

    process: ActorProcess
    overdue_s: float = 0.0
    dropped: DroppedMessages | None = None
    socket: str = ""

    @staticmethod
    def of_this(overdue_s: float = 0.0, dropped: DroppedMessages | None = None, socket: str = "") -> "Heartbeat":
        """Return the heartbeat of the actor in this process."""
        return Heartbeat(ActorProcess(this_node(), os.getpid()), overdue_s, dropped, socket)

"""Processes of a server that are forks, and have no command of their own to be known by."""

import psutil

from serving.process.forks.fork_off import ACTOR_FORKS, EDGE, FORK_SERVER

FORKS = (EDGE, FORK_SERVER, ACTOR_FORKS)


def is_named(process: psutil.Process, kind: str) -> bool:
    """Tell whether a process is of a kind of forks, or its command has the kind in it."""
    return process.name() == kind if kind in FORKS else kind in " ".join(process.cmdline())

"""What the processes of a server take of the processor, by the operating system's books: noise moves it less than it
moves the clock."""

import os
from collections import defaultdict
from collections.abc import Mapping

import psutil

from serving.process.server_process import Child

CLIENT, EDGE = "client", "edge"
ACTORS = {"ray::TokenSource": "source", "ray::HbXpu": "device", "ray::SchedulerActor": "scheduler"}


def cpu_times(child: Child) -> Mapping[str, float]:
    """Return the seconds of processor time that each kind of process has had so far: the client, which is this one,
    the edge, and the actors."""
    edge = psutil.Process(child.process.pid)
    taken: dict[str, float] = defaultdict(float)
    taken[CLIENT], taken[EDGE] = _seconds(psutil.Process(os.getpid())), _seconds(edge)
    for process in edge.children(recursive=True):
        name = (process.cmdline() or [""])[0]
        if kind := next((kind for start, kind in ACTORS.items() if name.startswith(start)), None):
            taken[kind] += _seconds(process)
    return taken


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)

"""Processor time of a server's processes, by the operating system's books: less noisy than wall time."""

import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import psutil

from serving.process.forks.fork_off import EDGE as EDGE_PROCESS
from serving.process.server_process import ServerProcess

CLIENT, EDGE = "client", "edge"
# Linux, include/linux/posix-timers.h.
CPUCLOCK_SCHED = 2
ACTORS = {
    "ray::TokenSource": "source",
    "ray::HbXpu": "device",
    "ray::SchedulerActor": "scheduler",
    "ray::DeviceModelActor": "device_model",
    "ray::LpddrActor": "slow_tier",
}
PROGRAMS = {"vllm-rs": "front_end"}
NAMES = {EDGE_PROCESS: "own_edge"}


def cpu_times(child: ServerProcess) -> Mapping[str, float]:
    """Return the seconds of processor time so far of each kind of process: the client (this one), edge and actors.

    With edges in processes of their own (`own_edge`), `edge` is the engine core.
    """
    edge = psutil.Process(child.process.pid)
    taken: dict[str, float] = defaultdict(float)
    taken[CLIENT], taken[EDGE] = seconds(psutil.Process(os.getpid())), seconds(edge)
    for process in edge.children(recursive=True):
        if kind := NAMES.get(process.name()) or _kind(process.cmdline()):
            taken[kind] += seconds(process)
    return taken


def _kind(command: Sequence[str]) -> str | None:
    name = next(iter(command), "")
    actor = next((kind for start, kind in ACTORS.items() if name.startswith(start)), None)
    return actor or PROGRAMS.get(name.rpartition("/")[2])


def seconds(process: psutil.Process) -> float:
    """Return the seconds of processor time that a process has taken."""
    return time.clock_gettime(_clock_of(process.pid))


def _clock_of(pid: int) -> int:
    """Return the clock of a process's processor time (`clock_getcpuclockid(3)`; Linux has it in the identifier): it
    counts nanoseconds, and /proc hundredths of a second."""
    return ~pid << 3 | CPUCLOCK_SCHED

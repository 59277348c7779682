"""The process behind an actor: its state, and its end where asking no longer helps."""

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

# Real seconds for an answer from Ray's books, which another process keeps.
ASK_S = 5.0
# The kernel's states of a process that is stopped, or has ended ("" where there is none).
STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
ENDED = ("", psutil.STATUS_ZOMBIE)
# Ray's states of an actor that has a process; one that restarts has its last life's process for a moment.
WITH_PROCESS = ("ALIVE", "PENDING_CREATION", "RESTARTING")


def this_node() -> str:
    """Return Ray's id of the node that this process is on."""
    return str(ray.get_runtime_context().get_node_id())


@dataclass(frozen=True, slots=True)
class ActorProcess:
    """An actor's process: its node, by Ray's id, and its number there."""

    node_id: str
    pid: int

    @property
    def is_here(self) -> bool:
        """Tell whether the process is on this node."""
        return self.node_id == this_node()

    def may_be_there(self) -> bool:
        """Tell whether the process has not ended, as far as that can be seen from this node."""
        return not self.is_here or self._status() not in ENDED

    def stopped(self) -> bool:
        """Tell whether the process is stopped (SIGSTOP, a debugger); False for one on another node."""
        return self.is_here and self._status() in STOPPED

    def is_well(self) -> bool:
        """Tell whether the process is on this node, has not ended and is not stopped: by one look, not by three."""
        return self.is_here and self._status() not in (*ENDED, *STOPPED)

    def runnable_s(self) -> float | None:
        """Return the process's seconds of processor time, and the whole ones for which its threads have waited for a
        processor; None for one on another node.

        A process whose seconds grow is not stuck for good: it computes, or would if others left it a processor.
        """
        if not self.is_here:
            return None
        try:
            times = psutil.Process(self.pid).cpu_times()
        except psutil.Error:
            return None
        # Threads that wake now and then wait for moments, whatever the others are stuck in.
        return float(times.user + times.system) + int(self._waited_s())

    def _waited_s(self) -> float:
        """Return the seconds for which threads have waited for a processor; 0 where the kernel does not tell."""
        try:
            return sum(map(_waited_s, Path(f"/proc/{self.pid}/task").iterdir()))
        except (OSError, ValueError):
            return 0.0

    def _status(self) -> str:
        try:
            return str(psutil.Process(self.pid).status())
        except psutil.Error:
            return ""


async def process_of(actor: Any) -> ActorProcess | None:
    """Return the process of an actor, ready or not; None if Ray does not say within `ASK_S`, or knows of none now."""
    try:
        async with asyncio.timeout(ASK_S):
            info = await asyncio.to_thread(_info, actor._actor_id.hex())
    except (TimeoutError, ray.exceptions.RayError):
        return None
    pid, node = info.get("Pid", 0), info.get("Address", {}).get("NodeID", "")
    return ActorProcess(node, pid) if pid and node and info.get("State") in WITH_PROCESS else None


async def end_process(process: ActorProcess) -> None:
    """Kill an actor's process, on whatever node it is."""
    if process.is_here:
        kill_worker(process.pid)
        return
    there = NodeAffinitySchedulingStrategy(process.node_id, soft=False)
    with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
        async with asyncio.timeout(ASK_S):
            await _kill_there.options(scheduling_strategy=there).remote(process.pid)


def kill_worker(pid: int) -> None:
    """Kill one of Ray's workers on this node, but no other process that may have its number by now."""
    with contextlib.suppress(psutil.Error, OSError):
        if " ".join(psutil.Process(pid).cmdline()).startswith("ray::"):
            os.kill(pid, signal.SIGKILL)


def _waited_s(task: Path) -> float:
    """Return the seconds of one thread, by its folder in /proc; 0 if it has ended. Raise OSError or ValueError where
    the kernel does not tell."""
    try:
        _, waited_ns, _ = (task / "schedstat").read_text(encoding="ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(waited_ns) / 1e9


def _info(actor_id: str) -> dict[str, Any]:
    return dict(ray._private.state.actors(actor_id=actor_id) or {})


_kill_there: Any = ray.remote(num_cpus=0, max_retries=0)(kill_worker)

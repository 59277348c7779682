"""The process behind an actor: how it is, and how to end it where asking no longer helps."""

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from typing import Any

import psutil
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

# For the books of Ray, which are on another process.
ASK_S = 5.0
# Ray's words for an actor that has a process; one that comes back has that of its last life for a moment.
WITH_PROCESS = ("ALIVE", "PENDING_CREATION", "RESTARTING")


def this_node() -> str:
    """Ray's name for the node that this process is on."""
    return str(ray.get_runtime_context().get_node_id())


@dataclass(frozen=True, slots=True)
class ActorProcess:
    """An actor's process: its node, and its number there."""

    node_id: str
    pid: int

    @property
    def is_here(self) -> bool:
        """Tell whether it is on this node."""
        return self.node_id == this_node()

    def may_be_there(self) -> bool:
        """Tell whether it has not ended, as far as that can be seen from this node."""
        return not self.is_here or self._status() not in ("", psutil.STATUS_ZOMBIE)

    def stopped(self) -> bool:
        """Tell whether somebody has stopped it (SIGSTOP, a debugger); False for one on another node."""
        return self.is_here and self._status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)

    def busy_s(self) -> float | None:
        """Seconds of processor time that it has had, None for one on another node: who has more and more is not stuck
        for good."""
        if not self.is_here:
            return None
        try:
            times = psutil.Process(self.pid).cpu_times()
        except psutil.Error:
            return None
        return float(times.user + times.system)

    def _status(self) -> str:
        try:
            return str(psutil.Process(self.pid).status())
        except psutil.Error:
            return ""


async def process_of(actor: Any) -> ActorProcess | None:
    """The process of an actor, also of one that is not ready yet; None if Ray does not say in time, or knows of none
    now."""
    try:
        async with asyncio.timeout(ASK_S):
            info = await asyncio.to_thread(_info, actor._actor_id.hex())
    except (TimeoutError, ray.exceptions.RayError):
        return None
    pid, node = info.get("Pid", 0), info.get("Address", {}).get("NodeID", "")
    return ActorProcess(node, pid) if pid and node and info.get("State") in WITH_PROCESS else None


async def end_process(process: ActorProcess) -> None:
    """Kill an actor's process, wherever it is."""
    if process.is_here:
        kill_worker(process.pid)
        return
    there = NodeAffinitySchedulingStrategy(process.node_id, soft=False)
    with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
        async with asyncio.timeout(ASK_S):
            await _kill_there.options(scheduling_strategy=there).remote(process.pid)


def kill_worker(pid: int) -> None:
    """Kill one of Ray's workers on this node; nobody else, should the number be another's by now."""
    with contextlib.suppress(psutil.Error, OSError):
        if " ".join(psutil.Process(pid).cmdline()).startswith("ray::"):
            os.kill(pid, signal.SIGKILL)


def _info(actor_id: str) -> dict[str, Any]:
    return dict(ray._private.state.actors(actor_id=actor_id) or {})


_kill_there: Any = ray.remote(num_cpus=0, max_retries=0)(kill_worker)

"""Watch over Ray itself: the raylet of this node and the GCS, without which nothing of an emulation can go on."""

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psutil
import ray
from ray.experimental.internal_kv import _internal_kv_exists

from serving.cluster.actor_process import ENDED, STOPPED

# Real seconds between two looks at whether a process is stopped.
LOOK_S = 2.0
# Real seconds after which a stopped process is as good as dead.
STOPPED_S = 8.0
# Real seconds between two questions to the GCS, and those after which it is lost if it does not answer: it may be on
# another machine, and may be restarted.
ASK_S = 5.0
SILENT_S = 30.0
RAYLET, GCS = "raylet", "gcs_server"


class RayLost(Exception):
    """The loss of Ray; the message is a sentence without its full stop."""


def ray_processes(own: bool) -> dict[str, psutil.Process]:
    """Return the raylet of this node, and the GCS if Ray is our `own`, by name."""
    node = ray._private.worker._global_node
    if node is None:
        return {}
    known_by = {RAYLET: f"={node.raylet_socket_name}", **({GCS: f"={node.session_name}"} if own else {})}
    found = dict[str, psutil.Process]()
    for process in psutil.process_iter(["name", "cmdline"]):
        known = known_by.get(process.info["name"])
        if known and any(word.endswith(known) for word in process.info["cmdline"] or []):
            found[process.info["name"]] = process
    return found


async def watch_ray(processes: dict[str, psutil.Process]) -> None:
    """Watch Ray for as long as it is well. Raise RayLost, in an exception group."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_watch_gcs())
        for name, process in processes.items():
            tasks.create_task(_watch_process(name, process))


async def _watch_process(name: str, process: psutil.Process) -> None:
    stopped, ended = _Since(), asyncio.create_task(_end_of(process))
    try:
        while not ended.done():
            if stopped.for_s(_status(process) in STOPPED) > STOPPED_S:
                raise RayLost(f"Ray's {name} (process {process.pid}) is stopped")
            await asyncio.wait([ended], timeout=LOOK_S)
    finally:
        ended.cancel()
    raise RayLost(f"Ray's {name} (process {process.pid}) has ended")


async def _end_of(process: psutil.Process) -> None:
    """Wait for the end of a process. The kernel tells of it, at once, and nobody has to look, unless it won't."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except OSError:  # forbidden in some containers
        while _status(process) not in ENDED:
            await asyncio.sleep(LOOK_S)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _watch_gcs() -> None:
    # A thread of its own: others may be busy for long with what clients send.
    asker = ThreadPoolExecutor(1, "gcs")
    while True:
        try:
            async with asyncio.timeout(SILENT_S):
                await asyncio.get_running_loop().run_in_executor(asker, _internal_kv_exists, b"foreserve")
        except Exception as error:
            raise RayLost(f"Ray's GCS does not answer ({type(error).__name__})") from error
        await asyncio.sleep(ASK_S)


@dataclass(slots=True)
class _Since:
    """The instant since which a condition has held without a break."""

    began_s: float | None = None

    def for_s(self, is_so: bool) -> float:
        if not is_so:
            self.began_s = None
            return 0.0
        now_s = time.monotonic()
        self.began_s = now_s if self.began_s is None else self.began_s
        return now_s - self.began_s


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""


def on_loss(watch: "asyncio.Task[None]", tell: Callable[[str], None]) -> None:
    """Call `tell` with the reason why a watch has ended, a sentence without its full stop, unless it was cancelled."""
    if watch.cancelled():
        return
    error = watch.exception()
    reasons = error.exceptions if isinstance(error, BaseExceptionGroup) else [error]
    tell(str(reasons[0]))

"""Ray's node: what the processes of a run are told of a Ray of our own, in a file of the run's folder."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from serving.process import guard
from serving.usage_error import UsageError

FILE = "ray-node"
LOOK_S = 0.01
ENDED = "Ray did not start on this machine: the process that was to start it has ended."


class RayNode(msgspec.Struct, frozen=True):
    """A Ray of our own, as the run's processes are told of it: its `address`, the `job` of the driver that serves, as
    workers are told it, and the process of its raylet. Or why it did not start."""

    address: str = ""
    job: str = ""
    raylet: int = 0
    failure: str = ""


def is_told(folder: Path) -> bool:
    """Tell whether the Ray of the run of a `folder` has started, or failed to."""
    return (folder / FILE).exists()


def tell(folder: Path, node: RayNode) -> None:
    """Tell the processes of the run of a `folder` of its Ray."""
    written = folder / f"{FILE}.new"
    written.write_bytes(msgspec.json.encode(node))
    written.rename(folder / FILE)


def wait_for_node(folder: Path, given_up: Callable[[], bool] = lambda: False) -> RayNode:
    """Wait until the Ray of a run has started, or failed to; return what is told of it. Raise UsageError if nobody will
    tell any more, which `given_up` says."""
    while not is_told(folder):
        if given_up() and not is_told(folder):
            raise UsageError(ENDED)
        time.sleep(LOOK_S)
    return msgspec.json.decode((folder / FILE).read_bytes(), type=RayNode)


def take_worker_settings() -> None:
    """Wait for the Ray of the run that this process belongs to, if any, and set what its workers have in their
    environments beyond what all of its processes have: Ray reads it as it is imported."""
    if folder := os.environ.get(guard.MARK):
        node = wait_for_node(Path(folder))
        os.environ |= {"RAY_JOB_ID": node.job, "RAY_RAYLET_PID": str(node.raylet)}

"""Placement: the nodes of a Ray cluster that carry an emulation, all of them or only those that offer to.

Where some nodes should carry none of it (a head that only keeps the books, edges that only answer clients), the others
offer the resource `foreserve`, and `FORESERVE_NODES` is the number of them to wait for.
"""

import asyncio
import os
import time
from typing import Any

import ray

from serving.usage_error import UsageError

HOSTING = "foreserve"
NODES = "FORESERVE_NODES"
SHARE = 0.001  # Of a node's offer, for each actor: small, as it only has to be there.
WAIT_S = 600.0
LOOK_S = 0.5


def wanted() -> int:
    """Return the number of nodes that an emulation waits for, and keeps to; 0: all. Raise UsageError."""
    text = os.environ.get(NODES, "").strip() or "0"
    if not text.isdigit():
        raise UsageError(f"`{NODES}` is {text!r}: it must be a whole number of nodes.")
    return int(text)


def hosts() -> list[str]:
    """Return the ids of the nodes that may carry an emulation, sorted."""
    every = not wanted()
    return sorted(node["NodeID"] for node in ray.nodes() if node["Alive"] and (every or offers(node)))


class Hosts:
    """The nodes that may carry an emulation, by their `ids`, as they were when Ray was last asked."""

    def __init__(self) -> None:
        self.ids = hosts()

    async def look(self) -> None:
        """Ask Ray anew, on a thread: it does not answer while its books are away, and the event loop must go on."""
        self.ids = await asyncio.to_thread(hosts)


def offers(node: dict[str, Any]) -> bool:
    """Tell whether a node offers to carry emulations."""
    return bool(node["Resources"].get(HOSTING))


def confined() -> dict[str, Any]:
    """Return Ray's options that keep an actor, also when it starts again, on nodes that offer."""
    return {"resources": {HOSTING: SHARE}} if wanted() else {}


def wait_for_hosts(wait_s: float = WAIT_S) -> None:
    """Wait until enough nodes are there. Raise UsageError after `wait_s` real seconds."""
    end = time.monotonic() + wait_s
    while len(hosts()) < wanted():
        if time.monotonic() > end:
            raise UsageError(
                f"`{NODES}` is {wanted()}, and after {wait_s:.0f} s {len(hosts())} nodes of the Ray cluster offer the "
                f"resource {HOSTING!r}: start them with --resources='{{\"{HOSTING}\": 1}}'."
            )
        time.sleep(LOOK_S)

"""Which nodes of a Ray cluster carry an emulation: all of them, or only those that offer to.

Where the cluster has nodes that should carry none of it (a head that only keeps the books, edges that only answer
clients), those that should offer the resource `foreserve`, and `FORESERVE_NODES` says for how many of them to wait.
"""

import os
import time
from typing import Any

import ray

from serving.scenario.scenario import ScenarioError

HOSTING = "foreserve"
NODES = "FORESERVE_NODES"
SHARE = 0.001  # of what a node offers, for each actor: that there is any is what counts
WAIT_S = 600.0
LOOK_S = 0.5


def wanted() -> int:
    """How many nodes an emulation waits for, and keeps to; 0: it takes all that there are, as they are."""
    text = os.environ.get(NODES, "").strip() or "0"
    if not text.isdigit():
        raise ScenarioError(f"`{NODES}` is {text!r}: it must be a whole number of nodes.")
    return int(text)


def hosts() -> list[str]:
    """The nodes that may carry it, always in the same order."""
    every = not wanted()
    return sorted(node["NodeID"] for node in ray.nodes() if node["Alive"] and (every or offers(node)))


def offers(node: dict[str, Any]) -> bool:
    """Tell whether a node is there for emulations."""
    return bool(node["Resources"].get(HOSTING))


def confined() -> dict[str, Any]:
    """Ray's options that keep an actor, also when it starts again, on nodes that offer."""
    return {"resources": {HOSTING: SHARE}} if wanted() else {}


def wait_for_hosts(wait_s: float = WAIT_S) -> None:
    """Until enough nodes are there; raises `ScenarioError` when that takes too long."""
    end = time.monotonic() + wait_s
    while len(hosts()) < wanted():
        if time.monotonic() > end:
            raise ScenarioError(
                f"`{NODES}` is {wanted()}, and after {wait_s:.0f} s {len(hosts())} nodes of the Ray cluster offer the "
                f"resource {HOSTING!r}: start them with --resources='{{\"{HOSTING}\": 1}}'."
            )
        time.sleep(LOOK_S)

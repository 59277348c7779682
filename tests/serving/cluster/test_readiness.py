"""Is each of an emulation's actors missed some day, whatever it hangs in?"""

import math
from types import SimpleNamespace
from typing import Any

from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver
from serving.cluster.readiness import Readiness
from serving.cluster.supervision.inquiry import Inquiry


def actor(name: str) -> Any:
    return SimpleNamespace(_actor_id=SimpleNamespace(hex=lambda: name))


def test_no_actor_may_hang_in_a_call_for_ever() -> None:
    source = SimpleNamespace(index=0, handle=actor("source"), inquiry=Inquiry())
    actors = SimpleNamespace(standbys=[actor("standby")], lose_standby=lambda standby: None)
    spec: Any = SimpleNamespace(sharers=1)
    node = Node(0, spec, spec, actor("device"), actor("scheduler"), actor("tier"), State.SERVING)
    devices: Any = SimpleNamespace(
        sources=SimpleNamespace(all=[source], actors=actors),
        cluster=SimpleNamespace(model=actor("model"), tiers={0: node.tier}),
        watched=[node],
        observer=EdgeObserver(),
    )
    parts = list(Readiness(devices)._parts())
    assert {part.key for part in parts} == {"source", "standby", "model", "device", "scheduler", "tier"}
    assert all(part.patience_s < math.inf for part in parts)

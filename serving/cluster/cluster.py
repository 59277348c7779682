"""Ray, and the actors of an emulation on it: one token source, one device model, and by device the rest."""

from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from serving.cluster import actors, device_actor, source_actor
from serving.cluster.node import Node
from serving.cluster.placement import confined, hosts
from serving.cluster.source_manager import SourceManager
from serving.cluster.streams.sockets import Address
from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.device.scheduler_config import limits_of, rules_of
from serving.process.process_priority import MAX_REALTIME_SPEED
from serving.scenario.scenario import Scenario
from serving.scheduler.config import Limits, SchedulerRules

# What Ray's decorator has made of these classes has no type.
DeviceModelActor: Any = actors.DeviceModelActor
LpddrActor: Any = actors.LpddrActor
SchedulerActor: Any = actors.SchedulerActor
HbXpu: Any = device_actor.HbXpu
TokenSource: Any = source_actor.TokenSource

# Where the others may not have a higher priority, the token source takes a lower one: it is ahead, so it can wait.
SOURCE_NICENESS = 5


@dataclass(slots=True)
class Cluster:
    """All that an emulation has in common, and how to start one more device of it.

    `max_model_len` is what clients were promised. `clock`: origin in Unix seconds, and speed. `edge`: where releases
    go. LPDDR tiers by the first device on each.
    """

    scenario: Scenario
    max_model_len: int
    clock: tuple[float, float]
    edge: Address
    model: Any
    source: SourceManager
    tiers: dict[int, Any] = field(default_factory=dict)

    def start_node(self, index: int, spec: DeviceSpec, device_limits: DeviceLimits) -> Node:
        """A device with its scheduler, and its LPDDR tier unless that is there already; all on one of Ray's nodes."""
        place = placed(index)
        group = index - index % spec.sharers
        if group not in self.tiers:
            self.tiers[group] = LpddrActor.options(**placed(group)).remote(
                group, device_limits.ext_bytes_per_s, self.realtime, self.edge
            )
        return Node(
            index=index,
            spec=spec,
            device_limits=device_limits,
            device=HbXpu.options(**place).remote(index, self.clock, self.edge, self.realtime, spec),
            scheduler=SchedulerActor.options(**place).remote(index, self.realtime, self.edge),
            tier=self.tiers[group],
        )

    def end_node(self, node: Node) -> None:
        """End a device's actors for good. Its LPDDR stays, with what the device drew on it freed."""
        for actor in (node.device, node.scheduler):
            ray.kill(actor, no_restart=True)
        node.tier.release.remote(node.index, 0.0)

    def limits(self, device_limits: DeviceLimits) -> Limits:
        """What a device takes on."""
        return limits_of(self.scenario, device_limits)

    def rules(self, device_limits: DeviceLimits) -> SchedulerRules:
        """The policies of a device's scheduler."""
        return rules_of(self.scenario, device_limits)

    @property
    def realtime(self) -> bool:
        """Tell whether actors may ask for real-time priority."""
        return self.scenario.speed <= MAX_REALTIME_SPEED


def placed(index: int) -> dict[str, Any]:
    """Ray's options for the actors of a device: the devices take the nodes of a cluster in turn. An actor whose node is
    gone starts again on another."""
    nodes = hosts()
    if len(nodes) < 2:
        return confined()
    strategy = NodeAffinitySchedulingStrategy(nodes[index % len(nodes)], soft=True)
    # An actor that asks for nothing at all Ray puts anywhere, whatever its strategy: each asks for a byte.
    return {"scheduling_strategy": strategy, "memory": 1, **confined()}


def start_source(scenario: Scenario, flags: list[str], realtime: bool) -> Any:
    """The token source: first of all, because it takes longest to be ready."""
    # A GPU, where there is one, belongs to the token model.
    gpus = 1 if ray.cluster_resources().get("GPU", 0) >= 1 else 0
    return TokenSource.options(num_gpus=gpus, **confined()).remote(
        flags, scenario.token_model, scenario.token_ahead, -5 if realtime else SOURCE_NICENESS
    )


def start_model(scenario: Scenario, fleet: list[DeviceSpec], edge: Address) -> Any:
    """The device model, one for all devices."""
    return DeviceModelActor.options(**confined()).remote(fleet, scenario.speed <= MAX_REALTIME_SPEED, edge)

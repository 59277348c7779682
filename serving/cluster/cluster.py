"""The actors of an emulation on Ray: token sources, one device model, and the others for each device."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from serving.clock import ClockOrigin
from serving.cluster import actors, device_actor
from serving.cluster.actor_process import this_node
from serving.cluster.node import Node
from serving.cluster.placement import Hosts, confined
from serving.cluster.sources import actor
from serving.cluster.sources.actor import SourceSettings
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.streams.sockets import Address
from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.device.scheduler_config import limits_of, rules_of
from serving.process.process_priority import MAX_REALTIME_SPEED
from serving.scenario.active_faults import tier_of
from serving.scenario.scenario import Scenario, ScenarioError
from serving.scheduler.config import Limits, SchedulerRules
from serving.token_source.vllm_args import on_cpu, source_flags

# Ray's decorator leaves these classes without types.
DeviceModelActor: Any = actors.DeviceModelActor
LpddrActor: Any = actors.LpddrActor
SchedulerActor: Any = actors.SchedulerActor
HbXpu: Any = device_actor.HbXpu
TokenSource: Any = actor.TokenSource

# The token source's niceness where the other processes may not have a higher priority: it is ahead, so it can wait.
SOURCE_NICENESS = 5
# The default number of sources: each computes on one core, its devices, their client and the edge on others; and more
# sources than the edge has time for are of no use (`serving/cluster/README.md`).
CORES_A_SOURCE = 4
MOST_SOURCES = 8


@dataclass(slots=True)
class Cluster:
    """The common parts of an emulation, and the start of one more device.

    `max_model_len`: tokens of context that clients were promised. `clock`: the start of emulated time. `edge`:
    the address for releases. `tiers`: the slow tiers, by the first device on each. `kv_events`: the devices tell what
    becomes of their prefix caches. `forked`: Ray's options for the actors if they are to be forks of a process
    (`forks.fork_servers`). `hosts`: the nodes on which devices start.
    """

    scenario: Scenario
    max_model_len: int
    clock: ClockOrigin
    edge: Address
    model: Any
    sources: SourceActors
    tiers: dict[int, Any] = field(default_factory=dict)
    kv_events: bool = False
    forked: dict[str, Any] = field(default_factory=dict)
    hosts: Hosts = field(default_factory=Hosts)

    def start_node(self, index: int, spec: DeviceSpec, device_limits: DeviceLimits) -> Node:
        """Start a device with its scheduler, and its slow tier unless that is up; all on one of Ray's nodes."""
        place = {**placed(index, self.hosts.ids), **self.forked}
        group = tier_of(index, spec.sharers).start
        if group not in self.tiers:
            self.tiers[group] = LpddrActor.options(**placed(group, self.hosts.ids), **self.forked).remote(
                group, device_limits.ext_bytes_per_s, self.realtime, self.edge
            )
        return Node(
            index=index,
            spec=spec,
            device_limits=device_limits,
            device=HbXpu.options(**place).remote(
                index, self.clock, self.edge, self.realtime, self.scenario.token_ahead
            ),
            scheduler=SchedulerActor.options(**place).remote(index, self.clock, self.realtime, self.edge),
            tier=self.tiers[group],
        )

    def end_node(self, node: Node) -> None:
        """End a device's actors for good. Its slow tier stays, freed of the device's lease."""
        for handle in (node.device, node.scheduler):
            ray.kill(handle, no_restart=True)
        node.tier.release.remote(node.index)

    def end_tier(self, node: Node) -> None:
        """End the slow tier of a device that was the last one on it; one that comes back gets another."""
        if (tier := self.tiers.pop(node.group, None)) is not None:
            ray.kill(tier, no_restart=True)

    def limits(self, device_limits: DeviceLimits) -> Limits:
        """Return the limits of a device's scheduler."""
        return limits_of(self.scenario, device_limits)

    def rules(self, device_limits: DeviceLimits) -> SchedulerRules:
        """Return the policies of a device's scheduler."""
        return replace(
            rules_of(self.scenario, device_limits), kv_events=self.kv_events, keep_answers=self.scenario.prefix_caching
        )

    @property
    def realtime(self) -> bool:
        """Tell whether actors may ask for real-time priority."""
        return self.scenario.speed <= MAX_REALTIME_SPEED


def placed(index: int, nodes: list[str]) -> dict[str, Any]:
    """Return Ray's options for the actors of a device: the devices take the `nodes` of a cluster, by id, in turn.

    An actor whose node is gone starts again on another.
    """
    if len(nodes) < 2:
        return confined()
    strategy = NodeAffinitySchedulingStrategy(nodes[index % len(nodes)], soft=True)
    # Ray puts an actor that asks for no resource anywhere, whatever its strategy: each asks for a byte.
    return {"scheduling_strategy": strategy, "memory": 1, **confined()}


def start_sources(
    scenario: Scenario, max_model_len: int, realtime: bool, edge: Address, forked: dict[str, Any]
) -> SourceActors:
    """Start the token sources: first of all, because they take longest to be ready.

    `forked`: Ray's options for them if they are to be forks of a process (`forks.fork_servers`). Raise ScenarioError
    for more than there are GPUs, where there are any.
    """
    resources = ray.cluster_resources()
    gpus = usable_gpus(resources, on_cpu())
    count = source_count(scenario, int(resources.get("CPU", 1)), gpus)
    hosts = Hosts()
    nodes = hosts.ids
    settings = SourceSettings(
        flags=source_flags(scenario, max_model_len),
        token_model=scenario.token_model,
        ahead=scenario.token_ahead,
        niceness=-5 if realtime else SOURCE_NICENESS,
        sources=count,
        nodes=max(1, len(nodes)),
    )
    # The first is where requests come from, the others follow in turn.
    first = nodes.index(this_node()) if this_node() in nodes else 0

    def start(index: int) -> Any:
        # A GPU, where there is one, belongs to the token model.
        options = {"num_gpus": min(gpus, 1), **placed(first + index, hosts.ids), **forked}
        return TokenSource.options(**options).remote(index, settings, edge)

    return SourceActors(start, count, scenario.standby_sources, hosts.look)


def usable_gpus(resources: Mapping[str, float], cpu_build: bool) -> int:
    """Return the number of GPUs among Ray's resources that token sources can use: vLLM's CPU build can use none."""
    return 0 if cpu_build else int(resources.get("GPU", 0))


def source_count(scenario: Scenario, cores: int, gpus: int) -> int:
    """Return the number of a scenario's token sources on a cluster with `cores` and `gpus`.

    Raise ScenarioError for more than there are GPUs, where there are any.
    """
    if gpus and scenario.token_sources > gpus:
        sentence = f"`token_sources` is {scenario.token_sources}: each takes a GPU, and there are {gpus}."
        raise ScenarioError(sentence)
    if scenario.token_sources:
        return scenario.token_sources
    return max(1, min(len(scenario.members), gpus or cores // CORES_A_SOURCE, MOST_SOURCES))


def start_model(scenario: Scenario, fleet: list[DeviceSpec], edge: Address, forked: dict[str, Any]) -> Any:
    """Start the device model, one for all devices; `forked` as for `start_sources`."""
    return DeviceModelActor.options(**confined(), **forked).remote(fleet, scenario.speed <= MAX_REALTIME_SPEED, edge)

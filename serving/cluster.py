"""Ray, and the actors of an emulation on it: one token source, one device model, and by device the rest."""

import logging
import os
from dataclasses import dataclass
from typing import Any

import ray

from serving import actors
from serving.emulated import Emulated
from serving.priority import MAX_REALTIME_SPEED
from serving.rules import Limits, Rules
from serving.scenario import Scenario

# What Ray's decorator has made of these classes has no type.
DeviceModelActor: Any = actors.DeviceModelActor
LpddrActor: Any = actors.LpddrActor
SchedulerActor: Any = actors.SchedulerActor
HbXpu: Any = actors.HbXpu
TokenSource: Any = actors.TokenSource

# Where the others may not have a higher priority, the token source takes a lower one: it is ahead, so it can wait.
SOURCE_NICENESS = 5
OBJECT_STORE_BYTES = 100 * 2**20


@dataclass(frozen=True, slots=True)
class Node:
    """One emulated device with what belongs to it: actor handles, which outlive their processes."""

    index: int
    device: Any
    scheduler: Any
    tier: Any


@dataclass(frozen=True, slots=True)
class Cluster:
    """All actors of an emulation."""

    nodes: list[Node]
    model: Any
    source: Any


def start_ray() -> None:
    """Start a Ray of our own on loopback, or join the one that `RAY_ADDRESS` names."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray makes its workers as nice as can be; ours are on a clock.
    os.environ.setdefault("RAY_worker_niceness", "0")
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**quiet)
        return
    # Ray turns a loopback address that it is given into the machine's own, unless it is told (as it is on laptops that
    # would ask about their firewall) that there will be no second machine.
    ray._private.ray_constants.ENABLE_RAY_CLUSTER = False
    ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet)


def start_source(scenario: Scenario, flags: list[str], realtime: bool) -> Any:
    """The token source: first of all, because it takes longest to be ready."""
    # A GPU, where there is one, belongs to the token model.
    gpus = 1 if ray.cluster_resources().get("GPU", 0) >= 1 else 0
    return TokenSource.options(num_gpus=gpus).remote(
        flags, scenario.token_model, scenario.token_ahead, -5 if realtime else SOURCE_NICENESS
    )


def start_nodes(
    scenario: Scenario, load: tuple[Limits, Rules], ext_bytes_per_s: float, clock: tuple[float, float], edge: str
) -> list[Node]:
    """The devices, each with its scheduler and LPDDR tier. `clock`: origin in Unix seconds, and speed."""
    realtime = scenario.speed <= MAX_REALTIME_SPEED
    return [
        Node(
            index=index,
            device=HbXpu.remote(index, clock, edge, realtime, Emulated.of(scenario)),
            scheduler=SchedulerActor.remote(*load, realtime),
            tier=LpddrActor.remote(ext_bytes_per_s, realtime),
        )
        for index in range(scenario.devices)
    ]


def start_model(scenario: Scenario) -> Any:
    """The device model, one for all devices."""
    realtime = scenario.speed <= MAX_REALTIME_SPEED
    return DeviceModelActor.remote(Emulated.of(scenario), realtime)

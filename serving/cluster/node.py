"""An emulated device and the actors that belong to it, as the edge knows them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from serving.cluster.device_calls import DeviceCalls
from serving.cluster.supervision.backoff import Backoff
from serving.cluster.supervision.connection_epoch import Link
from serving.cluster.supervision.inquiry import Inquiry
from serving.device.device_spec import DeviceLimits, DeviceSpec


class State(StrEnum):
    """How a device is: not there yet, taking requests, finishing those it has, not there for now, or never again."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    LOST = "lost"
    GONE = "gone"


@dataclass(slots=True)
class Node:
    """One emulated device: what it emulates now, the actors that belong to it (handles outlive their processes), how it
    is, and until which emulated instant a fault has it stand still."""

    index: int
    spec: DeviceSpec
    device_limits: DeviceLimits
    device: Any
    scheduler: Any
    tier: Any
    state: State = State.STARTING
    stalled_until_s: float = 0.0
    link: Link = field(default_factory=Link)
    inquiry: Inquiry = field(default_factory=Inquiry)
    backoff: Backoff = field(default_factory=Backoff)
    calls: DeviceCalls = field(default_factory=DeviceCalls)

    def lose(self) -> None:
        """Its actors are down, or have forgotten whatever they were told."""
        self.link.lose()
        self.calls.close()

    @property
    def up(self) -> bool:
        """Tell whether it has, or takes, requests."""
        return self.state in (State.SERVING, State.DRAINING)

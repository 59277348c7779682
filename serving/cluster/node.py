"""An emulated device and the actors that belong to it, as the edge knows them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from serving.cluster.device_calls import DeviceCalls
from serving.cluster.supervision.connection_epoch import Link
from serving.cluster.supervision.inquiry import Inquiry
from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.process.backoff import Backoff
from serving.scenario.active_faults import tier_of


class State(StrEnum):
    """A device's state: not there yet, taking requests, finishing those it has, not there for now, or never again."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    LOST = "lost"
    GONE = "gone"


@dataclass(slots=True)
class Node:
    """One emulated device: its present spec and limits, its actors, and its state.

    Handles of actors outlive their processes. `stalled_until_s` and `paused_until_s`: the emulated instants until which
    a fault, and a pause of all devices, have it stand still.
    """

    index: int
    spec: DeviceSpec
    device_limits: DeviceLimits
    device: Any
    scheduler: Any
    tier: Any
    state: State = State.STARTING
    stalled_until_s: float = 0.0
    paused_until_s: float = 0.0
    link: Link = field(default_factory=Link)
    inquiry: Inquiry = field(default_factory=Inquiry)
    backoff: Backoff = field(default_factory=Backoff)
    calls: DeviceCalls = field(default_factory=DeviceCalls)

    @property
    def group(self) -> int:
        """The first device on its slow tier."""
        return tier_of(self.index, self.spec.sharers).start

    def tell_stall(self) -> None:
        """Tell its process, if there is one, until when it stands still."""
        self.calls.stall(max(self.stalled_until_s, self.paused_until_s))

    def lose(self) -> None:
        """Record that its actors are down, or have lost their state, and disconnect them."""
        self.link.lose()
        self.calls.close()

    @property
    def serving(self) -> bool:
        """Tell whether the device takes requests."""
        return self.state is State.SERVING

    @property
    def gone(self) -> bool:
        """Tell whether the device will never serve again."""
        return self.state is State.GONE

    @property
    def up(self) -> bool:
        """Tell whether the device has requests, or takes them."""
        return self.state in (State.SERVING, State.DRAINING)

"""Active faults: what their events do, and what they leave of each device, decided here for live and virtual time."""

from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import NamedTuple

from device_model.condition import Condition
from serving.scenario.faults import LOST, STALL, Fault, FaultEvent, condition_of
from serving.types import NEVER


def tier_of(device: int, sharers: int) -> range:
    """Return the devices that are, were, or may come to be on the slow tier of a device, itself included."""
    first = device - device % sharers
    return range(first, first + sharers)


class FaultAction(Enum):
    """The action of a fault's event on a device: it is lost, or back with nothing in it; it stands still until its last
    stall ends (`stalled_until_s`); or it takes up the condition that its faults leave it in (`condition`)."""

    LOSE = auto()
    REVIVE = auto()
    STALL = auto()
    CHANGE = auto()


class Effect(NamedTuple):
    """An act, and the devices it is done to: none where a stall ends in its time, as the device goes on by itself."""

    act: FaultAction
    devices: Collection[int]


class ActiveFault(NamedTuple):
    """An occurrence of a fault that is on a device until an instant, if nobody clears it before."""

    fault: Fault
    device: int
    ends_s: float


class ActiveFaults:
    """The occurrences that have begun and not ended. A fault is known by its id, an occurrence of it by its number."""

    def __init__(self, tier: Callable[[int], Collection[int]]) -> None:
        """`tier(device)` are the devices that share its slow tier, itself included."""
        self._tier = tier
        self._there: dict[tuple[int, int], ActiveFault] = {}

    def happen(self, id: int, fault: Fault, event: FaultEvent, lost: bool, last: bool) -> Effect | None:
        """Begin an occurrence of a fault at the event's instant, or end it; return what that does. Return None if it
        cannot begin (a device that is `lost` cannot be lost again, nor stand still; the `last` that serves is never
        lost), or has ended before."""
        if not event.begins:
            return self.end(id, event.number)
        if (lost and fault.kind in (LOST, STALL)) or (last and fault.kind == LOST):
            return None
        active = self._there[id, event.number] = ActiveFault(fault, event.device, event.at_s + fault.for_s)
        return self._effect(active, begins=True)

    def end(self, id: int, number: int, at_s: float = NEVER) -> Effect | None:
        """End an occurrence, in its time or at `at_s` before; return what that does. Return None if it had not begun,
        or has ended before."""
        active = self._there.pop((id, number), None)
        return self._effect(active, begins=False, early=at_s < active.ends_s) if active is not None else None

    def of(self, id: int) -> dict[int, int]:
        """On which device each occurrence of a fault is, by its number."""
        return {number: active.device for (fault, number), active in self._there.items() if fault == id}

    def on(self, device: int) -> list[Fault]:
        """Return the faults that were told of a device."""
        return [active.fault for active in self._there.values() if active.device == device]

    def _effect(self, active: ActiveFault, begins: bool, early: bool = False) -> Effect:
        fault, device = active.fault, active.device
        if fault.kind == LOST:
            return Effect(FaultAction.LOSE if begins else FaultAction.REVIVE, (device,))
        if fault.kind == STALL:
            return Effect(FaultAction.STALL, (device,) if begins or early else ())
        return Effect(FaultAction.CHANGE, self._reached(fault, device))

    def _reached(self, fault: Fault, device: int) -> Collection[int]:
        """Return the devices that a fault on one of them concerns: with a slow tier all that share it."""
        return self._tier(device) if fault.is_of_slow_tier else (device,)

    def condition(self, device: int, also: Fault | None = None) -> Condition:
        """Return a device's condition under all active faults, and perhaps another one."""
        # Of one fault, however often it is there at once, only one occurrence counts.
        there = {id: active.fault for (id, _), active in self._there.items() if device in self._reached(*active[:2])}
        faults = [there[id] for id in sorted(there)]
        return condition_of([*faults, also] if also is not None else faults)

    def stalled_until_s(self, device: int) -> float:
        """Return the end of a device's last stall; 0 without one. Overlapping stalls do not add up."""
        stalls = [active for active in self._there.values() if active.fault.kind == STALL and active.device == device]
        return max((active.ends_s for active in stalls), default=0.0)

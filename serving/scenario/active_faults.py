"""Active faults, and what they leave of each device: decided here for live and virtual time."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from device_model.condition import Condition
from serving.scenario.faults import LOST, STALL, Fault, FaultEvent, condition_of


def tier_of(device: int, sharers: int) -> range:
    """Return the devices that are, were, or may come to be on the slow tier of a device, itself included."""
    first = device - device % sharers
    return range(first, first + sharers)


def can_begin(fault: Fault, lost: bool, last: bool) -> bool:
    """Tell whether a fault can come to a device. One that is `lost` can't be lost again, nor stand still; the `last`
    that serves is never lost."""
    if fault.kind == LOST:
        return not lost and not last
    return fault.kind != STALL or not lost


class Active(NamedTuple):
    """An occurrence of a fault that is on a device until an instant, if nobody clears it before."""

    fault: Fault
    device: int
    ends_s: float


class ActiveFaults:
    """The occurrences that have begun and not ended. A fault is known by its id, an occurrence of it by its number."""

    def __init__(self, tier: Callable[[int], Collection[int]]) -> None:
        """`tier(device)` are the devices that share its slow tier, itself included."""
        self._tier = tier
        self._there: dict[tuple[int, int], Active] = {}

    def begin(self, id: int, fault: Fault, event: FaultEvent) -> None:
        """Begin an occurrence at the event's instant."""
        self._there[id, event.number] = Active(fault, event.device, event.at_s + fault.for_s)

    def end(self, id: int, number: int) -> Active | None:
        """End an occurrence; return None if it had not begun, or was ended before."""
        return self._there.pop((id, number), None)

    def of(self, id: int) -> dict[int, int]:
        """On which device each occurrence of a fault is, by its number."""
        return {number: active.device for (fault, number), active in self._there.items() if fault == id}

    def on(self, device: int) -> list[Fault]:
        """Return the faults that were told of a device."""
        return [active.fault for active in self._there.values() if active.device == device]

    def reached(self, fault: Fault, device: int) -> Collection[int]:
        """Return the devices that a fault on one of them concerns: with a slow tier all that share it."""
        return self._tier(device) if fault.is_of_slow_tier else (device,)

    def condition(self, device: int, also: Fault | None = None) -> Condition:
        """Return a device's condition under all active faults, and perhaps another one."""
        # Of one fault, however often it is there at once, only one occurrence counts.
        there = {id: active.fault for (id, _), active in self._there.items() if device in self.reached(*active[:2])}
        faults = [there[id] for id in sorted(there)]
        return condition_of([*faults, also] if also is not None else faults)

    def stalled_until_s(self, device: int) -> float:
        """Return the end of a device's last stall; 0 without one. Overlapping stalls do not add up."""
        stalls = [active for active in self._there.values() if active.fault.kind == STALL and active.device == device]
        return max((active.ends_s for active in stalls), default=0.0)

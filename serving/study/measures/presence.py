"""Presence: when each device of a run is there and when it works, and what it draws whatever it does."""

from collections import defaultdict
from dataclasses import dataclass

from serving.simulation.node import VirtualDevice
from serving.types import NEVER


@dataclass(slots=True)
class Stretch:
    """A device between two changes of it: whether it is there, and its static power, in watts."""

    since_s: float
    there: bool
    static_w: float
    until_s: float = NEVER

    def within_s(self, from_s: float, to_s: float) -> float:
        """Return the seconds of it from one instant to another."""
        return max(0.0, min(self.until_s, to_s) - max(self.since_s, from_s))


class Presence:
    """The stretches of each device, the seconds of its steps, and what of their joules is static."""

    def __init__(self) -> None:
        self._stretches: defaultdict[int, list[Stretch]] = defaultdict(list)
        self._busy_s: defaultdict[int, float] = defaultdict(float)
        self._busy_j = 0.0

    def change(self, device: VirtualDevice) -> None:
        """Record that a device is there, perhaps in another condition, or that it is lost."""
        stretches = self._stretches[device.index]
        if stretches:
            stretches[-1].until_s = device.at_s
        static_w = device.device_limits.static_w if device.serving else 0.0
        stretches.append(Stretch(device.at_s, device.serving, static_w))

    def work(self, device: int, start_s: float, latency_s: float) -> None:
        """Record steps of a device. Those that ended before a change are told of after it, or began before it."""
        self._busy_s[device] += latency_s
        for stretch in reversed(self._stretches[device]):
            self._busy_j += stretch.static_w * stretch.within_s(start_s, start_s + latency_s)
            if stretch.since_s <= start_s:
                break

    def there_s(self, to_s: float) -> float:
        """Return the seconds until `to_s` in which devices were there, of all together."""
        return sum(self._there_s(device, to_s) for device in self._stretches)

    def lost_s(self, from_s: float, to_s: float) -> float:
        """Return the seconds from one instant to another in which devices were lost, of all together."""
        lost = (each for every in self._stretches.values() for each in every if not each.there)
        return sum(each.within_s(from_s, to_s) for each in lost)

    def busy_s(self, to_s: float) -> float:
        """Return the seconds until `to_s` in which devices were in a step, of all together."""
        return sum(min(busy_s, self._there_s(device, to_s)) for device, busy_s in self._busy_s.items())

    def idle_j(self, to_s: float) -> float:
        """Return what devices drew until `to_s` while they were there and had nothing to do, in joules."""
        static_j = sum(each.static_w * each.within_s(0.0, to_s) for every in self._stretches.values() for each in every)
        return max(0.0, static_j - self._busy_j)

    def _there_s(self, device: int, to_s: float) -> float:
        return sum(stretch.within_s(0.0, to_s) for stretch in self._stretches[device] if stretch.there)

"""The router: which device a request goes to."""

from collections.abc import Collection


class LeastLoaded:
    """The device with the fewest requests in flight; the lowest index among equals."""

    def __init__(self, devices: int) -> None:
        self._load = [0] * devices

    def choose(self) -> int:
        """The device for a request, counted as in flight there from now on."""
        device = min(range(len(self._load)), key=self._load.__getitem__)
        self.take(device)
        return device

    def take(self, device: int) -> None:
        """A request goes to a device that its client has named."""
        self._load[device] += 1

    def done(self, devices: Collection[int]) -> None:
        """Requests on these devices have ended."""
        for device in devices:
            self._load[device] -= 1

    def idle(self, device: int) -> bool:
        """Whether nothing is in flight on a device."""
        return self._load[device] == 0

"""The requests in flight, kept from the events that tell of them."""

from collections import Counter
from collections.abc import Collection

from serving.flight import Flight


class InFlight:
    """Keeps all requests in flight, and the number of them on each device."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._device: dict[str, int] = {}
        self._counts: Counter[int] = Counter()

    @property
    def flights(self) -> Collection[Flight]:
        """All requests in flight."""
        return self._flights.values()

    def on(self, device: int) -> int:
        """Return the number of a device's requests."""
        return self._counts[device]

    def put(self, flight: Flight) -> None:
        """Count a request on the device that its flight names; it has begun, or continues there."""
        self.remove(flight)
        self._flights[flight.request.id] = flight
        self._device[flight.request.id] = flight.device
        self._counts[flight.device] += 1

    def remove(self, flight: Flight) -> None:
        """Remove a request that ended; ignore one that never began."""
        if self._flights.pop(flight.request.id, None) is not None:
            self._counts[self._device.pop(flight.request.id)] -= 1

"""Arrivals: requests stamped for an instant that a device has not come to, and those whose news came late."""

from collections.abc import Iterable, Iterator

from serving.policies.waiting_queue import PriorityHeap
from serving.types import Request


class Arrivals:
    """Requests that are not in a device's queue yet, by arrival."""

    def __init__(self) -> None:
        self._coming = PriorityHeap(lambda request: request.arrival_s)
        self._fresh: set[str] = set()

    def __contains__(self, request: Request) -> bool:
        return request in self._coming

    def add(self, request: Request, in_time: bool) -> None:
        """Expect a request. Unless `in_time`, the news of it may be late: then a step that it missed is counted."""
        self._coming.push(request)
        if not in_time:
            self._fresh.add(request.id)

    def remove(self, request: Request) -> None:
        """Expect a request no more."""
        self._coming.remove(request)

    def first(self) -> Request | None:
        """Return the one that arrives next."""
        return self._coming.first()

    def due(self, at_s: float) -> Request | None:
        """Return the next one if it has arrived by an instant."""
        return self._coming.due(at_s)

    def until(self, at_s: float) -> Iterator[Request]:
        """Yield those that have arrived by an instant, which are expected no more."""
        while request := self.due(at_s):
            self.remove(request)
            yield request

    def slips(self, started: Iterable[Request], missed_s: float) -> int:
        """Count those of the requests that begin now which had arrived by `missed_s`: they would have begun a step
        sooner, had the news of them not been late."""
        fresh, self._fresh = self._fresh, set()
        return sum(request.arrival_s <= missed_s for request in started if request.id in fresh)

"""Waiting queue: the requests that wait, in the order in which they may begin; the common part of all batching
policies.

A policy is a file in `batching/`, with a class `Queue`. It may prefer whom it likes, but nobody is passed over for
ever: each says up to when one that waits may be.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from serving.types import NEVER, Request

# What one that stands in line is ordered by: its key, its arrival, and how many had come.
Entry = tuple[float, float, int, Request]
# So many that have left a line are no trouble.
FEW = 16


class Terms:
    """A batching policy's parameters. `patience_s`: emulated seconds for which a request without a deadline may be
    passed over. `prefill_s(tokens)`: seconds that the device takes for a prompt. `hold_s`: see
    `batching/topic_aware.py`."""

    def __init__(
        self, patience_s: float, prefill_s: Callable[[int], float] = lambda tokens: 0.0, hold_s: float = 0.0
    ) -> None:
        self.patience_s, self.prefill_s, self.hold_s = patience_s, prefill_s, hold_s

    def start_s(self, request: Request) -> float:
        """Return the instant at which a request must begin to have its first token in time; with no deadline, when
        patience has run out."""
        if request.deadline_s == NEVER:
            return request.arrival_s + self.patience_s
        return request.deadline_s - self.prefill_s(request.prompt_tokens)

    def latest_s(self, request: Request) -> float:
        """Return the instant at which a request must begin to have its first token in time; with no deadline, or one
        that is further away than others have patience, when that has run out."""
        return min(self.start_s(request), request.arrival_s + self.patience_s)


class QueuePolicy:
    """Default behaviour of a waiting queue: hold no request back."""

    def wakes_s(self, at_s: float) -> float:
        """Return the instant at which a held request may begin; endless: none is held."""
        return NEVER


class WaitingQueue(Protocol):
    """Requests that have arrived and wait."""

    def push(self, request: Request) -> None:
        """Add a request."""
        ...

    def remove(self, request: Request) -> None:
        """Remove a request, which begins, or whose client has gone."""
        ...

    def first(self, at_s: float, running: Counter[str]) -> Request | None:
        """Return the request that should begin at `at_s`, beside `running` requests of each topic; None if none
        should."""
        ...

    def wakes_s(self, at_s: float) -> float:
        """Return the next instant at which `first` may answer with somebody whom it holds back now; `NEVER` if it never
        does hold back."""
        ...

    def __len__(self) -> int: ...


class PriorityHeap:
    """Requests in the order of a key, of those with the same the first that came. All takes at most the logarithm of
    their number, but for those that left out of turn: they are dropped when they come up, or once they are the most."""

    def __init__(self, key: Callable[[Request], float]) -> None:
        self.key = key
        self._heap: list[Entry] = []
        self._here: dict[str, int] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._here)

    def __contains__(self, request: Request) -> bool:
        return request.id in self._here

    def push(self, request: Request) -> None:
        """Stand in line."""
        self._pushed += 1
        self._here[request.id] = self._pushed
        heapq.heappush(self._heap, (self.key(request), request.arrival_s, self._pushed, request))
        # Those that left out of turn may never come up: where all are served by another line, say.
        if len(self._heap) > 2 * len(self._here) + FEW:
            self._heap = [each for each in self._heap if self._is_here(each)]
            heapq.heapify(self._heap)

    def remove(self, request: Request) -> None:
        """Leave the line, from any place in it; nothing for one that is not in it."""
        self._here.pop(request.id, None)

    def first(self) -> Request | None:
        """Return the first request in line; None if there is none."""
        while self._heap and not self._is_here(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][3] if self._heap else None

    def due(self, at_s: float) -> Request | None:
        """Return the first request, if its key, an instant, is not after `at_s`."""
        first = self.first()
        return first if first is not None and self.key(first) <= at_s else None

    def _is_here(self, entry: Entry) -> bool:
        _, _, place, request = entry
        return self._here.get(request.id) == place

"""Earliest deadline first, by the instant at which a prompt must begin to be done in time.

Whoever can't be in time any more lets those pass who still can: under overload plain earliest deadline first makes
everybody late. Not for ever: once patience has run out after the deadline, it goes before all others. A deadline counts
that is further away than patience lasts, too: nobody is late before it.
"""

from collections import Counter

from serving.policies.waiting_queue import PriorityHeap, QueuePolicy, Terms
from serving.types import Request


class Queue(QueuePolicy):
    """Those that can be in time, by their latest start; then the late, by that too."""

    def __init__(self, terms: Terms) -> None:
        self._in_time = PriorityHeap(terms.start_s)
        self._late = PriorityHeap(lambda request: terms.start_s(request) + terms.patience_s)

    def __len__(self) -> int:
        return len(self._in_time) + len(self._late)

    def push(self, request: Request) -> None:
        self._in_time.push(request)

    def remove(self, request: Request) -> None:
        self._in_time.remove(request)
        self._late.remove(request)

    def first(self, at_s: float, running: Counter[str]) -> Request | None:
        # An instant that is just now is still in time.
        while (late := self._in_time.due(at_s)) and not self._starts_now(late, at_s):
            self._in_time.remove(late)
            self._late.push(late)
        return self._late.due(at_s) or self._in_time.first() or self._late.first()

    def _starts_now(self, request: Request, at_s: float) -> bool:
        return self._in_time.key(request) == at_s

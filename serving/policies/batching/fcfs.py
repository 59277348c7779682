"""First come, first served."""

from collections import Counter

from serving.policies.waiting_queue import PriorityHeap, QueuePolicy, Terms
from serving.types import Request


class Queue(QueuePolicy):
    """In the order of arrival."""

    def __init__(self, terms: Terms) -> None:
        self._line = PriorityHeap(lambda request: request.arrival_s)

    def __len__(self) -> int:
        return len(self._line)

    def push(self, request: Request) -> None:
        self._line.push(request)

    def remove(self, request: Request) -> None:
        self._line.remove(request)

    def first(self, at_s: float, running: Counter[str]) -> Request | None:
        return self._line.first()

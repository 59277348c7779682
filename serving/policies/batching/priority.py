"""By priority, and of the same one in the order of arrival; whoever has waited for long enough goes before."""

from collections import Counter

from serving.policies.waiting_queue import PriorityHeap, QueuePolicy, Terms
from serving.types import Request


class Queue(QueuePolicy):
    """A lower number is served sooner, as in vLLM; unlike there, nobody starves: see `Terms.patience_s`."""

    def __init__(self, terms: Terms) -> None:
        self._line = PriorityHeap(lambda request: request.priority)
        self._overdue = PriorityHeap(lambda request: request.arrival_s + terms.patience_s)

    def __len__(self) -> int:
        return len(self._line)

    def push(self, request: Request) -> None:
        self._line.push(request)
        self._overdue.push(request)

    def remove(self, request: Request) -> None:
        self._line.remove(request)
        self._overdue.remove(request)

    def first(self, at_s: float, running: Counter[str]) -> Request | None:
        return self._overdue.due(at_s) or self._line.first()

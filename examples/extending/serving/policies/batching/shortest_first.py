"""Shortest prompt first: the mean TTFT falls, and nobody is passed over for longer than there is patience."""

from collections import Counter

from serving.policies.waiting_queue import PriorityHeap, QueuePolicy, Terms
from serving.types import Request


class Queue(QueuePolicy):
    """A line by length, and one by the latest start."""

    def __init__(self, terms: Terms) -> None:
        self._shortest = PriorityHeap(lambda request: request.prompt_tokens)
        self._latest = PriorityHeap(terms.latest_s)

    def __len__(self) -> int:
        return len(self._shortest)

    def push(self, request: Request) -> None:
        for line in (self._shortest, self._latest):
            line.push(request)

    def remove(self, request: Request) -> None:
        for line in (self._shortest, self._latest):
            line.remove(request)

    def first(self, at_s: float, running: Counter[str]) -> Request | None:
        return self._latest.due(at_s) or self._shortest.first()

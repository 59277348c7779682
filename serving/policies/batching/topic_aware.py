"""One topic at a time, as far as every request's SLO permits (Stratum, 3.1): its experts are hot then.

The topic of most of the batch is preferred while any of it waits; then comes the topic whose first request has waited
longest. Nobody is too late for the sake of a topic: from the instant on at which a request must begin to be in time
(`Terms.latest_s`), it goes before all that need not yet.

With room in the batch and nobody of its topic waiting, another topic may join at once, or be held back for up to
`Terms.hold_s` while the batch goes on: purer batches for later first tokens.
"""

from collections import Counter

from serving.policies.waiting_queue import PriorityHeap, Terms
from serving.types import NEVER, Request


class Queue:
    """A line for each topic, and one of all by the latest start."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._by_topic: dict[str, PriorityHeap] = {}
        self._latest = PriorityHeap(terms.latest_s)
        self._held = PriorityHeap(lambda request: request.arrival_s + terms.hold_s)

    def __len__(self) -> int:
        return len(self._latest)

    def push(self, request: Request) -> None:
        if request.topic not in self._by_topic:
            self._by_topic[request.topic] = PriorityHeap(lambda each: each.arrival_s)
        for line in (self._by_topic[request.topic], self._latest, self._held):
            line.push(request)

    def remove(self, request: Request) -> None:
        for line in (self._by_topic[request.topic], self._latest, self._held):
            line.remove(request)

    def first(self, at_s: float, running: Counter[str]) -> Request | None:
        return self._latest.due(at_s) or self._of_the_batch(running) or self._of_another(at_s, running)

    def _of_the_batch(self, running: Counter[str]) -> Request | None:
        """Return the first request of the running topic that has most requests, of those that anybody waits with."""
        for topic, count in running.most_common():
            line = self._by_topic.get(topic)
            if count > 0 and line and (first := line.first()):
                return first
        return None

    def _of_another(self, at_s: float, running: Counter[str]) -> Request | None:
        return self._held.due(at_s) if running.total() else self._held.first()

    def wakes_s(self, at_s: float) -> float:
        if not self._terms.hold_s:
            return NEVER
        waits = [line.key(first) for line in (self._latest, self._held) if (first := line.first())]
        return min((instant for instant in waits if instant > at_s), default=NEVER)

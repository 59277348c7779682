"""Fairness between API keys: who has been served least goes first (Sheng et al., Fairness in Serving LLMs, OSDI 2024).

Each key has a counter of the tokens that it was served, an output token counting twice as a prompt's. The next request
is of the key with the lowest counter among those that wait; which one of that key, the batching policy says. A key that
comes back after it had nothing to do is lifted to the lowest counter of the others, or where these have nothing to do
either, to that of the last that had: idleness earns no credit.
"""

from collections import Counter
from collections.abc import Callable

from serving.policies.waiting_queue import WaitingQueue
from serving.types import NEVER, Request

# Weights of the paper's evaluation (5.1), which follow what providers ask for them.
PROMPT_WEIGHT, OUTPUT_WEIGHT = 1.0, 2.0


class FairQueue:
    """A queue for each key. To choose takes time in proportion to the keys that wait, which are few."""

    def __init__(self, make: Callable[[], WaitingQueue]) -> None:
        self._make = make
        self._queues: dict[str, WaitingQueue] = {}
        self._served: dict[str, float] = {}
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        # The counter of the key that was last to have nothing to do any more.
        self._last = 0.0

    def __len__(self) -> int:
        return self._waiting.total()

    def push(self, request: Request) -> None:
        key = request.key
        if key not in self._queues:
            self._queues[key] = self._make()
        if not self._busy(key):
            others = [self._served[each] for each in {*self._waiting, *self._running} if self._busy(each)]
            self._served[key] = max(self._served.get(key, 0.0), min(others, default=self._last))
        self._queues[key].push(request)
        self._waiting[key] += 1

    def remove(self, request: Request) -> None:
        self._queues[request.key].remove(request)
        self._waiting[request.key] -= 1
        if not self._waiting[request.key]:
            del self._waiting[request.key]
            self._note_idle(request.key)

    def first(self, at_s: float, running: Counter[str]) -> Request | None:
        for key in sorted(self._waiting, key=self._served.__getitem__):
            if first := self._queues[key].first(at_s, running):
                return first
        return None

    def wakes_s(self, at_s: float) -> float:
        return min((self._queues[key].wakes_s(at_s) for key in self._waiting), default=NEVER)

    def begin(self, request: Request, prompt_tokens: int) -> None:
        """Record that a request has begun, and `prompt_tokens` of its prompt are to be computed."""
        self._running[request.key] += 1
        self._served[request.key] = self._served.get(request.key, 0.0) + PROMPT_WEIGHT * prompt_tokens

    def serve(self, request: Request, tokens: int) -> None:
        """Record that a request has had so many tokens of output."""
        self._served[request.key] += OUTPUT_WEIGHT * tokens

    def end(self, request: Request) -> None:
        """Record that a request runs no longer."""
        self._running[request.key] -= 1
        if not self._running[request.key]:
            del self._running[request.key]
            self._note_idle(request.key)

    def _note_idle(self, key: str) -> None:
        if not self._busy(key):
            self._last = self._served[key]

    def _busy(self, key: str) -> bool:
        return self._waiting[key] > 0 or self._running[key] > 0

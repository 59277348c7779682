"""Requests in batches, and what comes late meanwhile: a batch that seems to make streams late is sent again, as what is
its doing comes again, and what is the machine's does not, or comes also while nothing is sent."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from serving.process.server_process import ServerProcess
from tests.soak.streams import Lateness

T = TypeVar("T")

# A batch is sent again until nothing is late beside it, and so often at most.
BATCH, AGAIN = 50, 8
# What was asked for last has been released by then, in real seconds.
OVER_S = 0.2
# Real seconds without a request, about as long as a batch takes.
REST_S = 1.0


@dataclass(slots=True)
class LateBatches:
    """How many releases were late while batches were sent for the first time; how often in a row those with late ones
    beside them had such again, of `most` times (0: lateness is counted, and judged by nobody), and which each time."""

    child: ServerProcess
    most: int = AGAIN
    lateness: Lateness = field(default_factory=Lateness)
    again: list[int] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)

    def send(self, calls: Iterable[T], ask: Callable[[T], None], at_once: int) -> None:
        """Send all calls, so many at once."""
        left = iter(calls)
        with ThreadPoolExecutor(at_once) as pool:
            while batch := list(islice(left, BATCH)):
                first = self._sent(pool, batch, ask)
                self.lateness = self.lateness.plus(first)
                if first.late and self.most:
                    times = range(self.most)
                    self.again.append(next((n for n in times if not self._sent(pool, batch, ask).late), self.most))
                    if self.again[-1] == self.most and not self._late_at_rest():
                        self.causes.append(f"Streams are late beside these, each time: {batch!r:.2000}")

    def _sent(self, pool: ThreadPoolExecutor, batch: list[T], ask: Callable[[T], None]) -> Lateness:
        before = Lateness.of(self.child)
        for _ in pool.map(ask, batch):
            pass
        time.sleep(OVER_S)
        return Lateness.of(self.child).since(before)

    def _late_at_rest(self) -> bool:
        """Whether streams are late while nothing is sent, in as many times as a batch was sent again."""
        for _ in range(self.most):
            before = Lateness.of(self.child)
            time.sleep(REST_S)
            if Lateness.of(self.child).since(before).late:
                return True
        return False

    def __str__(self) -> str:
        return (
            f"{self.lateness}; of late batches late again in a row, {self.most} times at most: {self.again or 'none'}"
        )

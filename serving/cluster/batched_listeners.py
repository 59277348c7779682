"""Batched listeners: observers that hear of tokens, steps and deliveries several at a time."""

import asyncio
from collections.abc import Sequence
from typing import Any

from serving.cluster.observer import EdgeBroadcast, EdgeObserver
from serving.observer import Hear

# Real seconds for which what may wait does, and how much of it: no reader of metrics looks as often.
BATCH_S, MOST_WAITING = 0.05, 512
AT_ONCE = {"on_release"}  # which flights have not recorded yet
MAY_WAIT = {"on_tokens", "on_step", "on_delivery"}


class BatchedListeners(EdgeBroadcast):
    """Tells observers in order, of tokens, steps and deliveries a moment later, several together: on a busy machine the
    processor has forgotten who hears of them by the next release, and has to be told but once a batch.

    They hear nothing before `listen`, and of nothing else before they have heard what waits. For an event loop.
    """

    def __init__(self, observers: Sequence[EdgeObserver]) -> None:
        self._waiting: list[tuple[Hear, tuple[Any, ...]]] = []
        self._at_once = False
        super().__init__(observers, quiet=True)
        for event, tell in [each for each in vars(self).items() if each[0].startswith("on_")]:
            if event not in AT_ONCE:
                setattr(self, event, self._later(tell) if event in MAY_WAIT else self._after_all(tell))

    def flush(self) -> None:
        """Tell all that waits."""
        waiting, self._waiting = self._waiting, []
        for tell, arguments in waiting:
            tell(*arguments)

    def _later(self, tell: Hear) -> Hear:
        def wait(*arguments: Any) -> None:
            if self._quiet:
                return
            if self._at_once:
                tell(*arguments)
                return
            if not self._waiting:
                asyncio.get_running_loop().call_later(BATCH_S, self.flush)
            self._waiting.append((tell, arguments))
            if len(self._waiting) >= MOST_WAITING:
                self.flush()

        return wait

    def _after_all(self, tell: Hear) -> Hear:
        def tell_after(*arguments: Any) -> None:
            self.flush()
            tell(*arguments)
            # Whoever sees that a request has ended may ask at once what its last step took: what follows in this turn
            # of the loop does not wait.
            if not self._at_once:
                self._at_once = True
                asyncio.get_running_loop().call_soon(self._wait_again)

        return tell_after

    def _wait_again(self) -> None:
        self._at_once = False

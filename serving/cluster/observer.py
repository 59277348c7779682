"""Observers of the edge: what only a server has to tell, beside the events of every observer."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from serving.call import Call
from serving.cluster.node import Node
from serving.flight import Flight, TokenNews
from serving.observer import Broadcast, Hear, Observer
from serving.types import DroppedMessages

Refuse = Callable[[Flight, str], None]
"""Ends a request that nobody can serve, with a sentence for its client."""

log = logging.getLogger("foreserve")


class LiveFlights(NamedTuple):
    """The requests in flight, by id, their observer, and the function that ends one that nobody can serve."""

    flights: dict[str, Flight]
    observer: "EdgeObserver"
    refuse: Refuse


class EdgeObserver(Observer[Flight, Node]):
    """An observer of all events at the edge, called in its event loop. Subclass it; its methods do nothing."""

    def on_tokens(self, news: TokenNews) -> None:
        """Hear that requests have got tokens of a device."""

    def on_delivery(self, device: int, late_real_s: float) -> None:
        """Hear that a device's tokens have gone to their clients, `late_real_s` real seconds after their instant."""

    def on_answer(self, call: Call) -> None:
        """Hear that a call was answered, or broken off; its requests may live a moment longer."""

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        """Hear that a fault of a device begins, or ends."""

    def on_restart(self, actor: str) -> None:
        """Hear that an actor died and comes back: `token source`, or `device 0`."""

    def on_dropped(self, receiver: str, dropped: DroppedMessages) -> None:
        """Hear that messages to a receiver (`edge`, or `device 0`) could not be read."""


class EdgeBroadcast(Broadcast[Flight, Node], EdgeObserver):
    """Tells several observers, each apart: one that fails must not keep tokens from a client.

    With `quiet`, they hear nothing until `listen`.
    """

    def __init__(self, observers: Sequence[Observer[Flight, Node]], quiet: bool = False) -> None:
        self._quiet = quiet
        super().__init__(observers)

    def listen(self) -> None:
        """Tell the observers from now on."""
        self._quiet = False

    def _broadcast(self, hearing: list[Hear]) -> Hear:
        def tell(*arguments: Any) -> None:
            if self._quiet:
                return
            for hear in hearing:
                try:
                    hear(*arguments)
                except Exception:
                    name = getattr(hear, "__qualname__", repr(hear))
                    log.exception("Observer %s failed: what it was told is not counted, logged or traced.", name)

        return tell

"""Observers of the edge: metrics, the forecast, logs and traces are all made from its events."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from serving.admission.refusals import Reason
from serving.call import Call
from serving.cluster.node import Node
from serving.flight import Flight
from serving.observer import Observer
from serving.types import Chunk, Dropped, Release, StepRecord

Refuse = Callable[[Flight, str], None]
"""Ends a request that nobody can serve, with a sentence for its client."""

log = logging.getLogger("foreserve")


class Traffic(NamedTuple):
    """The requests in flight, by id, their observer, and the function that ends one that nobody can serve."""

    flights: dict[str, Flight]
    observer: "EdgeObserver"
    refuse: Refuse


class EdgeObserver(Observer[Flight]):
    """An observer of all events at the edge, called in its event loop. Subclass it; its methods do nothing."""

    def on_begin(self, flight: Flight) -> None:
        """Hear of a request before it is sent to its device."""

    def on_release(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        """Hear of a device's release, before flights record `news`: the chunks that clients have not seen."""

    def on_tokens(self, device: int, news: list[tuple[Flight, Chunk]], gaps_s: list[float | None]) -> None:
        """Hear that requests have got tokens of a device, each chunk `gaps_s` emulated seconds after the last one of
        its request (None: the first)."""

    def on_delivery(self, device: int, late_real_s: float) -> None:
        """Hear that a device's tokens have gone to their clients, `late_real_s` real seconds after their instant."""

    def on_move(self, flight: Flight) -> None:
        """Hear that a request goes on elsewhere: on the device that its flight now names."""

    def on_answer(self, call: Call) -> None:
        """Hear that a call was answered, or broken off; its requests may live a moment longer."""

    def on_rejection(self, reason: Reason, slo: str) -> None:
        """Hear that a request of an SLO class ("": of none, or not known) was turned away."""

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        """Hear that a fault of a device begins, or ends."""

    def on_change(self, node: Node) -> None:
        """Hear that a device has joined, or is in another state or condition."""

    def on_restart(self, actor: str) -> None:
        """Hear that an actor died and comes back: `token source`, or `device 0`."""

    def on_dropped(self, receiver: str, dropped: Dropped) -> None:
        """Hear that messages to a receiver (`edge`, or `device 0`) could not be read."""


class Broadcast(EdgeObserver):
    """An observer that tells several others, each apart: one that fails must not keep tokens from a client.

    With `quiet`, they hear nothing until `listen`. An observer is called only for the events that it extends.
    """

    def __init__(self, observers: Sequence[EdgeObserver], quiet: bool = False) -> None:
        self._all = tuple(observers)
        self._hearers = dict.fromkeys(EVENTS, ()) if quiet else self._hearing()

    def listen(self) -> None:
        """Tell the observers from now on."""
        self._hearers = self._hearing()

    def on_begin(self, flight: Flight) -> None:
        self._tell("on_begin", flight)

    def on_release(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        self._tell("on_release", release, news)

    def on_step(self, record: StepRecord) -> None:
        self._tell("on_step", record)

    def on_tokens(self, device: int, news: list[tuple[Flight, Chunk]], gaps_s: list[float | None]) -> None:
        self._tell("on_tokens", device, news, gaps_s)

    def on_delivery(self, device: int, late_real_s: float) -> None:
        self._tell("on_delivery", device, late_real_s)

    def on_move(self, flight: Flight) -> None:
        self._tell("on_move", flight)

    def on_finish(self, flight: Flight) -> None:
        self._tell("on_finish", flight)

    def on_answer(self, call: Call) -> None:
        self._tell("on_answer", call)

    def on_rejection(self, reason: Reason, slo: str) -> None:
        self._tell("on_rejection", reason, slo)

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        self._tell("on_fault", device, kind, begins)

    def on_change(self, node: Node) -> None:
        self._tell("on_change", node)

    def on_restart(self, actor: str) -> None:
        self._tell("on_restart", actor)

    def on_dropped(self, receiver: str, dropped: Dropped) -> None:
        self._tell("on_dropped", receiver, dropped)

    def _hearing(self) -> dict[str, tuple[Callable[..., None], ...]]:
        """Return by event the methods of observers that extend it."""
        return {
            event: tuple(getattr(each, event) for each in self._all if _overrides(type(each), event))
            for event in EVENTS
        }

    def _tell(self, event: str, *arguments: object) -> None:
        for hear in self._hearers[event]:
            try:
                hear(*arguments)
            except Exception:
                log.exception("What was to be counted, logged or traced could not be.")


EVENTS = tuple(name for name in dir(EdgeObserver) if name.startswith("on_"))
"""The names of the methods that an observer may extend."""


def _overrides(observer: type[EdgeObserver], event: str) -> bool:
    return getattr(observer, event) is not getattr(EdgeObserver, event)

"""Observer: one interface by which metrics, logs, traces, forecasts and studies hear of requests, steps and devices,
live as in virtual time.

An observer is given at construction to whoever tells it. It is called only for the events that it extends.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from serving.refusals import Refusal
from serving.types import Chunk, Release, Request, StepRecord

Hear = Callable[..., None]


class TrackedRequest(Protocol):
    """A request on its way: a server's `Flight`, or an `Outcome` of virtual time.

    `made` counts the tokens that it has got. `resumed` is the request for a device that has never seen it.
    """

    @property
    def request(self) -> Request: ...

    @property
    def device(self) -> int: ...

    @property
    def resumed(self) -> Request: ...

    @property
    def made(self) -> int: ...

    @property
    def ttft_s(self) -> float: ...

    @property
    def tpot_s(self) -> float: ...


RequestT = TypeVar("RequestT", bound=TrackedRequest, contravariant=True)
DeviceT = TypeVar("DeviceT", contravariant=True)


class Observer(Generic[RequestT, DeviceT]):
    """Hears of all events and does nothing about them. Subclass it.

    Each device's steps come in order, and its requests in the order of their ends.
    """

    def on_begin(self, flight: RequestT) -> None:
        """Hear of an admitted request before it is sent to its device."""

    def on_move(self, flight: RequestT) -> None:
        """Hear that a request goes on elsewhere: on the device that its flight now names."""

    def on_release(self, release: Release, news: list[tuple[RequestT, Chunk]]) -> None:
        """Hear of a device's release, before flights record `news`: the chunks that are new to clients. In virtual time
        those are a request's first and last."""

    def on_step(self, record: StepRecord) -> None:
        """Hear of a device's step (in virtual time perhaps several equal ones), when all that came of it was told."""

    def on_finish(self, flight: RequestT) -> None:
        """Hear that a request has ended, for the reason that its flight now names."""

    def on_refusal(self, refusal: Refusal, flight: RequestT | None) -> None:
        """Hear that a request was not taken on. Only virtual time knows it (`flight`) by then."""

    def on_change(self, device: DeviceT) -> None:
        """Hear that a device has joined, or is in another state or condition."""


class Broadcast(Observer[RequestT, DeviceT]):
    """Tells several observers, in order. What one of them raises reaches whoever tells."""

    def __init__(self, observers: Sequence[Observer[RequestT, DeviceT]]) -> None:
        kind = type(self)
        for event in (name for name in dir(kind) if name.startswith("on_")):
            if hearing := hearers(observers, event, getattr(kind, event)):
                setattr(self, event, self._broadcast(hearing))

    def _broadcast(self, hearing: list[Hear]) -> Hear:
        """Return what tells the observers of one event: of a single one the method itself, as virtual time is fast."""
        if len(hearing) == 1:
            return hearing[0]

        def tell(*arguments: Any) -> None:
            for hear in hearing:
                hear(*arguments)

        return tell


def hearers(observers: Iterable[object], event: str, silent: Hear) -> list[Hear]:
    """Return the methods for an event of those observers that have one other than `silent`, which does nothing."""
    found = (getattr(each, event, silent) for each in observers)
    return [hear for hear in found if getattr(hear, "__func__", hear) is not silent]

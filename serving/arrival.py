"""When the request that the current task serves came in: stamped once, at the edge, before anything is done with it."""

from contextvars import ContextVar

from serving.clock import WallClock

_arrived: ContextVar[float | None] = ContextVar("arrived", default=None)


def stamp(clock: WallClock) -> None:
    """A request has come in, to the current task."""
    _arrived.set(clock.now())


def arrival_s(clock: WallClock) -> float:
    """The emulated instant at which it came; now, for a way in that does not stamp."""
    arrived = _arrived.get()
    return clock.now() if arrived is None else arrived

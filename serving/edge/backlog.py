"""Backlog of the edge: while tokens go out too late, devices of this host are to leave it more of the processor."""

from collections.abc import Callable

from serving.clock import WallClock
from serving.cluster.observer import EdgeObserver
from serving.device.live_driver import LEAP_S

# Real seconds for which the edge counts as behind after tokens have gone out too late.
BEHIND_S = 0.5


class Backlog(EdgeObserver):
    """Posts until when the edge counts as behind: once tokens are so late that those of some steps may be told of
    together, and come no more than twice as late."""

    def __init__(self, clock: WallClock, post: Callable[[float], object]) -> None:
        """`post` takes an emulated instant."""
        self._clock, self._post = clock, post

    def on_delivery(self, device: int, late_real_s: float) -> None:
        if late_real_s > LEAP_S:
            self._post(self._clock.now() + BEHIND_S * self._clock.speed)

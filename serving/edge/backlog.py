"""Backlog of the edge: while tokens go out too late, devices of this host are to leave it more of the processor."""

from collections.abc import Callable

from serving.clock import WallClock
from serving.cluster.observer import EdgeObserver
from serving.device.live_driver import LEAP_S

# Tokens that are so many real seconds late have gone out too late: much more than those of a leap wait for each other,
# which would keep devices leaping for no other reason.
LATE_S = 2.5 * LEAP_S
# Real seconds for which the edge counts as behind after that.
BEHIND_S = 0.5


class Backlog(EdgeObserver):
    """Posts until when the edge counts as behind: for a while after tokens have gone out too late."""

    def __init__(self, clock: WallClock, post: Callable[[float], object]) -> None:
        """`post` takes an emulated instant."""
        self._clock, self._post = clock, post

    def on_delivery(self, device: int, late_real_s: float) -> None:
        if late_real_s > LATE_S:
            self._post(self._clock.now() + BEHIND_S * self._clock.speed)

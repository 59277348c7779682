"""Backlog of the edge: while tokens go out too late, devices of this host are to leave it more of the processor."""

from collections.abc import Callable, Sequence

from serving.clock import WallClock
from serving.cluster.observer import EdgeObserver
from serving.device.live_driver import LEAP_S
from serving.flight import Flight
from serving.types import Chunk, Release

# Real seconds for which the edge counts as behind after tokens have gone out later than those of a leap wait for each
# other.
BEHIND_S = 0.5


class Backlog(EdgeObserver):
    """Posts until when the edge counts as behind: for a while after tokens have gone out too late."""

    def __init__(self, clock: WallClock, post: Callable[[float], object]) -> None:
        """`post` takes an emulated instant."""
        self._clock, self._post = clock, post
        self._held_s: dict[int, float] = {}

    def on_release(self, release: Release, news: Sequence[tuple[Flight, Chunk]]) -> None:
        # What tokens of a leap have waited for each other is no fault of the edge, and no reason to go on leaping.
        self._held_s[release.device] = (release.at_s - release.due_s) / self._clock.speed

    def on_delivery(self, device: int, late_real_s: float) -> None:
        if late_real_s - self._held_s.get(device, 0.0) > LEAP_S:
            self._post(self._clock.now() + BEHIND_S * self._clock.speed)

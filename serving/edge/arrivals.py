"""Arrivals: the calls of an edge that are on their way to a scheduler, posted where devices look before they plan."""

import asyncio
from collections.abc import Callable
from functools import partial

from serving.call import Call
from serving.clock import WallClock
from serving.cluster.streams.arrival_board import NONE
from serving.device.live_driver import LONGEST_AWAITED_S

# Real seconds that a call's requests take from the edge to the scheduler, and one of several after the other.
TRANSIT_S = 0.001


class Arrivals:
    """Posts the instant of the earliest call that has begun, and not ended. For an event loop."""

    def __init__(self, clock: WallClock, post: Callable[[float], object] = lambda at_s: None) -> None:
        """`post` takes an emulated instant, or `NONE`."""
        self._clock, self._post = clock, post
        self._instants: dict[int, float] = {}

    def begin(self, call: Call) -> None:
        """Have devices wait for a call that came just now. Most are on their way for a fifth of `LONGEST_AWAITED_S`;
        long prompts are longer, and not worth the wait."""
        if (left_s := LONGEST_AWAITED_S - self._clock.late(call.arrival_s)) > 0:
            self._instants[id(call)] = call.arrival_s
            self._post(min(self._instants.values()))
            call.posted_s = self._clock.now()
            call.at_end.append(partial(self._end, call))
            asyncio.get_running_loop().call_later(left_s, self._end, call)

    def sent(self, call: Call) -> None:
        """Have devices wait no longer than until a call's requests, which were sent just now, must be there."""
        if id(call) in self._instants:
            asyncio.get_running_loop().call_later(TRANSIT_S, self._end, call)

    def _end(self, call: Call) -> None:
        if self._instants.pop(id(call), None) is not None:
            self._post(min(self._instants.values(), default=NONE))

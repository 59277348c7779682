"""Intake: admits a crowd of new requests to the event loop a few at a time, so that others' tokens go out."""

import asyncio
from functools import partial

from serving.call import Call
from serving.edge.arrivals import Arrivals

# A request takes some milliseconds of the loop until it is in flight, in pieces: so many at once keep a token waiting
# for no longer than that.
PLACES = 4
# Whoever waits for something else for so long (a long prompt's tokens, a grammar) keeps nobody from it meanwhile.
PATIENCE_S = 0.05


class Intake:
    """Takes in a few requests at a time, in order. Their arrival is unaffected: a call is stamped before."""

    def __init__(self, arrivals: Arrivals) -> None:
        """`arrivals` tell devices that they are on their way."""
        self._arrivals = arrivals
        self._places = asyncio.Semaphore(PLACES)
        self._inside: set[int] = set()

    async def enter(self, call: Call) -> None:
        """Wait, at most `PATIENCE_S`, for a place; the call keeps it until it is in flight or has ended."""
        self._arrivals.begin(call)
        await self._places.acquire()
        self._inside.add(id(call))
        call.at_end.append(partial(self.leave, call))
        asyncio.get_running_loop().call_later(PATIENCE_S, self.leave, call)

    def leave(self, call: Call) -> None:
        """Give back a call's place, if it has one: its requests have been sent."""
        self._arrivals.sent(call)
        if id(call) in self._inside:
            self._inside.remove(id(call))
            self._places.release()

"""A crowd of new requests at the event loop, on which others' tokens go out."""

import asyncio
from functools import partial

from serving.call import Call

# A request takes some milliseconds of the loop until it is in flight, in pieces: so many at once keep a token waiting
# for no longer than that.
PLACES = 4
# Whoever waits for something else for so long (a long prompt's tokens, a grammar) keeps nobody from it meanwhile.
PATIENCE_S = 0.05


class Intake:
    """Takes requests in a few at a time, in the order in which they came. They have arrived all the same: a call is
    stamped before."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(PLACES)
        self._inside: set[int] = set()

    async def enter(self, call: Call) -> None:
        """Wait for a place, which the call has until it is in flight or has ended, or for `PATIENCE_S`."""
        await self._places.acquire()
        self._inside.add(id(call))
        call.at_end.append(partial(self.leave, call))
        asyncio.get_running_loop().call_later(PATIENCE_S, self.leave, call)

    def leave(self, call: Call) -> None:
        """Give a call's place back, if it has one still."""
        if id(call) in self._inside:
            self._inside.remove(id(call))
            self._places.release()

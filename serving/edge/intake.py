"""A crowd of new requests at the event loop, on which others' tokens go out."""

import asyncio
from collections.abc import Callable

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

    async def enter(self, call: Call) -> None:
        """Wait for a place, which the call has until it is in flight or has ended, or for `PATIENCE_S`."""
        await self._places.acquire()
        leave = self._leaving()
        call.landed = leave
        call.at_end.append(leave)
        asyncio.get_running_loop().call_later(PATIENCE_S, leave)

    def _leaving(self) -> Callable[[], None]:
        """What gives a place back, once however often it is called."""
        held = [True]

        def leave() -> None:
            if held:
                held.clear()
                self._places.release()

        return leave

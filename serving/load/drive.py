"""Open-loop sending: each request goes out at its instant, whatever became of earlier ones."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from time import monotonic

from serving.load.client import RequestTimes, Transport
from serving.load.request import LoadRequest
from serving.workload.source import AFTER_FAILURE_S

# Returns the request that follows one which ended, as its client saw it, at an instant: seconds of the report's clock
# since the run began.
After = Callable[[LoadRequest, RequestTimes, float], LoadRequest | None]
Slots = asyncio.Semaphore | nullcontext[None]

LONGEST_SLEEP_S = 3600.0  # Event loops overflow on sleeps of centuries, which a very low rate can ask for.
LONGEST_TURN_S = 0.01  # Of making requests that are due already: chunks are to be stamped, and Ctrl-C to be heard.


class Drive:
    """A load run and its progress: `all_times` holds every request that was sent, in order.

    `speed`: emulated seconds per real second. `timeout_s`: real seconds for one request.
    """

    def __init__(self, transport: Transport, model: str, speed: float, timeout_s: float) -> None:
        self.transport, self.model = transport, model
        self.speed, self.timeout_s = speed, timeout_s
        self.all_times: list[RequestTimes] = []
        self.in_flight: set[RequestTimes] = set()
        self.done = self.failed = self.ended_tokens = 0

    async def run(self, requests: Iterable[LoadRequest], most: int | None, after: After | None = None) -> None:
        """Send the requests, and the request that comes `after` each, at most `most` at once; wait for all to end.

        Cancelling this cancels all of them.
        """
        slots = asyncio.Semaphore(most) if most else nullcontext()
        self.start_s = start_s = monotonic()
        turn_s = start_s
        async with asyncio.TaskGroup() as sending:
            for request in requests:
                if monotonic() > turn_s + LONGEST_TURN_S:
                    await asyncio.sleep(0)
                    turn_s = monotonic()
                # Absolute, so that what made this client late for one request does not delay the next.
                due_s = start_s + request.arrival_s / self.speed
                await _until(due_s)
                sending.create_task(self._chain(request, after, slots))

    async def _chain(self, request: LoadRequest, after: After | None, slots: Slots) -> None:
        """Send a request, then the requests that wait for it, one after the other."""
        following: LoadRequest | None = request
        while following is not None:
            due_s = self.start_s + following.arrival_s / self.speed
            await _until(due_s)
            times = await self._one(following, due_s, slots)
            ended_s = monotonic() - self.start_s + (AFTER_FAILURE_S if times.error else 0.0)
            following = after(following, times, ended_s * self.speed) if after else None

    async def _one(self, request: LoadRequest, due_s: float, slots: Slots) -> RequestTimes:
        times = RequestTimes(due_s, lag_s=monotonic() - due_s, slo=request.slo, name=request.name)
        times.call_parts = [] if request.calls else None
        self.all_times.append(times)
        self.in_flight.add(times)
        try:
            free_s = monotonic()
            async with slots:
                times.held_s = monotonic() - free_s
                await self._send(request, times)
        except asyncio.CancelledError:
            times.cancelled, times.cancelled_s = True, monotonic()
            raise
        finally:
            self.in_flight.discard(times)
            self.done += times.completed
            self.failed += times.error is not None
            self.ended_tokens += times.tokens
        return times

    async def _send(self, request: LoadRequest, times: RequestTimes) -> None:
        try:
            async with asyncio.timeout(self.timeout_s):
                await self.transport.stream(request, self.model, times)
        except TimeoutError:
            times.fail("timeout", f"no end after {self.timeout_s:g} s")
        except Exception as error:  # One request must not end the run; the report names what happened.
            times.fail("client", repr(error))
        times.close()


async def _until(instant_s: float) -> None:
    # Again if woken too early: uvloop's timers count whole milliseconds, and an early start would shorten its TTFT.
    while (wait_s := instant_s - monotonic()) > 0:
        await asyncio.sleep(min(wait_s, LONGEST_SLEEP_S))

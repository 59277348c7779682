"""A token source of a running emulation: the requests in it, and its replacement when it dies."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection
from typing import Any, Protocol

import ray
from ray.exceptions import RayError

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.observer import LiveFlights
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.sources.source_calls import SourceCalls
from serving.cluster.streams.rpc import RpcError
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.connection_epoch import Link
from serving.cluster.supervision.deaths import cause_of_deaths, ended_from_outside, from_outside, given_up, summary
from serving.cluster.supervision.inquiry import Inquiry
from serving.flight import Flight
from serving.process.background import BackgroundTasks
from serving.process.backoff import Backoff
from serving.process.logs import fields
from serving.types import NEVER

log = logging.getLogger("foreserve")

ACTOR = "token source"
LOOK_S = 0.2
# Real seconds for devices to tell what lies in their buffers; the source makes all other tokens again.
ASK_S = 2.0
COST_S, COST_KEPT_S = 1.0, 60.0

# Real seconds for tokens that devices have sent to be here.
ARRIVE_S = 0.05


class Siblings(Protocol):
    """All token sources of an emulation, which do what one cannot: `token_sources.TokenSources`."""

    def move(self, flights: list[Flight]) -> None:
        """Have requests of a source that has died made by others, where that may be."""

    def relieve(self) -> None:
        """Move the requests that wait for others: this one has just come up."""

    def follow(self) -> None:
        """Tell the devices the addresses of all sources."""


class SourceManager:
    """The token source of an index, whichever actor that is.

    A request is in the source from `add` to `drop`, through any number of deaths of the actor. When the source dies
    with the same requests twice, they go on apart until the one that is the cause is known, which is refused. `cost`:
    real seconds of a step, and more for each sequence in it; None before the source has told them.
    """

    def __init__(
        self, index: int, actors: SourceActors, live: LiveFlights, buffers: DeviceBuffers, siblings: Siblings
    ) -> None:
        self._buffers, self._siblings = buffers, siblings
        self.index = index
        self._actors = actors
        self._flights, self._observer, self._refuse = live
        self.link = Link()
        self.backoff = Backoff()
        self.inquiry = Inquiry()
        # Set while the progress of requests matters: after a death, and while one may be here that was another source's
        # and has got no further since.
        self._in_question = asyncio.Event()
        self.address: Address | None = None
        self.cost: tuple[float, float] | None = None
        self._calls = SourceCalls()
        self._in_source: set[str] = set()
        self._from_outside, self._reminded_s = False, -NEVER
        self._tasks = BackgroundTasks()

    def start(self) -> None:
        """Run the source from now on; call `come_up` first."""
        for work in (self._run, self._watch_progress, self._look_in):
            self._tasks.keep_up(work)

    def stop(self) -> None:
        """Stop looking after the source; its actors end with Ray."""
        self._tasks.stop()
        self._calls.close()

    @property
    def handle(self) -> Any:
        """The actor that is the source now."""
        return self._actors.running[self.index]

    @property
    def load(self) -> int:
        """The number of requests in the source."""
        return len(self._in_source)

    @property
    def is_forsaken(self) -> bool:
        """Tell whether the source was ended from outside, and is not up again: no request need wait for it."""
        return not self.link.up and self._from_outside

    def question(self) -> None:
        """Watch the progress of requests until it no longer matters."""
        self._in_question.set()

    def own(self) -> list[Flight]:
        """Return the requests whose tokens this source makes."""
        return [flight for flight in self._flights.values() if flight.source == self.index]

    async def come_up(self) -> None:
        """Connect the source as the emulation starts; another one, if something ends it meanwhile. Raise RayError if it
        fails by itself, or is ended each time."""
        while True:
            try:
                return await self.connect()
            except RayError as error:
                if not ended_from_outside(error) or self.backoff.failed(time.monotonic()):
                    raise
                sentence = "The token source was ended as it started (%s); another one starts."
                log.error(sentence, summary(error), extra=fields(actor=ACTOR, source=self.index))
            await self._actors.replace(self.index)

    async def connect(self) -> None:
        """Wait until the source is up, and tell it the devices' addresses. Raise RayError if it does not start."""
        self.address = await self.handle.address.remote()
        self._calls.connect(self.address)
        self.tell_addresses()

    def tell_addresses(self) -> None:
        """Tell the source the devices' addresses from now on."""
        self._calls.tell_addresses(self.index, self._buffers.addresses)

    def warm_up(self, request_id: str, device: int, tokens: int) -> None:
        """Have tokens made for a device that no client waits for."""
        self._in_source.add(request_id)
        self._calls.warm_up(request_id, device, tokens)

    def add(self, flight: Flight, known: list[int]) -> None:
        """Have a request's tokens made; later, if the source is down or the request must wait."""
        if self.link.up and flight.opened and self._waits(flight):
            self._in_source.add(flight.request.id)
            self._calls.add(flight, known)

    def resume(self, flight: Flight, position: int) -> None:
        """Have a request's tokens sent to its device again, whose buffer begins at `position` of its output."""
        if flight.request.id in self._in_source:
            self._calls.resend(flight, position)
        else:
            self.add(flight, flight.tokens)

    def remind(self, flight: Flight, position: int) -> None:
        """Have a request's tokens sent to its device that should long have come, from `position` of its output on,
        whichever message was lost: where the device is, the request itself, or that it is on that device."""
        if self.link.up and flight.request.id in self._in_source:
            # Once for all of which it is reminded at a time.
            if (now_s := time.monotonic()) > self._reminded_s + COST_S:
                self._reminded_s = now_s
                self.tell_addresses()
            self._calls.add(flight, flight.tokens)
            self._calls.resend(flight, position)

    def drop(self, request_ids: Collection[str]) -> None:
        """Forget requests that are done or aborted."""
        if there := self._in_source.intersection(request_ids):
            self._calls.drop(there)
            self._in_source -= there
        if self.inquiry.open:
            self.inquiry.gone(request_ids)
            self._admit()

    async def add_missing(self) -> None:
        """Have tokens made of all requests of the source that are not in it, and may be."""
        state, held = self.link.state, await self._buffers.held(ASK_S)
        if any(flight.made < held.get(flight.request.id, (0,))[0] for flight in self.own()):
            await asyncio.sleep(ARRIVE_S)
        if state != self.link.state:
            return
        for flight in self.own():
            taken, ready = held.get(flight.request.id, (flight.made, []))
            # What the device took and sent may still be on its way here, and more may have come since it was asked.
            self.add(flight, flight.tokens + (ready[flight.made - taken :] if taken <= flight.made else []))

    async def _run(self) -> None:
        while True:
            try:
                await self.handle.run.remote()
            except RayError as error:
                self.link.lose()
                sentence = "The token source stopped (%s); it starts again."
                log.error(sentence, summary(error), extra=fields(actor=ACTOR, source=self.index))
                self._observer.on_restart(ACTOR)
                is_sought = self._suspect(by_itself=not from_outside(error))
                while not await self._recovered(is_sought):
                    is_sought = False
                    self._give_up()

    def _suspect(self, by_itself: bool) -> bool:
        """Ask which request the source's death is the fault of; tell whether it is that of some."""
        at_work = [flight.request.id for flight in reversed(self.own()) if flight.request.id in self._in_source]
        culprit = self.inquiry.death(at_work, by_itself)
        self._in_source.clear()
        self.question()
        if culprit is not None and culprit in self._flights:
            self._refuse(self._flights[culprit], cause_of_deaths(ACTOR))
        self._from_outside = not (by_itself or self.inquiry.in_doubt)
        if self._from_outside:
            self._siblings.move(self.own())
        return culprit is not None or self.inquiry.in_doubt

    def _give_up(self) -> None:
        """Refuse all requests that wait for a source that does not come back."""
        if self.backoff.given_up:
            for flight in self.own():
                self._refuse(flight, given_up("The token source"))

    async def _recovered(self, is_sought: bool) -> bool:
        """Replace the source by a standby, or by a new one, which makes the old one's tokens again."""
        await asyncio.sleep(self.backoff.failed(time.monotonic(), is_sought))
        try:
            await self._replace()
            self._siblings.follow()
            self.link.up = True
            self.backoff.came_up(time.monotonic())
            await self.add_missing()
            self._siblings.relieve()
            self._actors.stand_by()
        except RayError as error:
            log.error("The token source does not start (%s).", summary(error), extra=fields(actor=ACTOR))
            self._lose()
            return False
        except Exception:
            # Whatever it is (no more files to open): a source that nobody starts again would keep its requests waiting.
            log.exception("The token source could not be replaced.", extra=fields(actor=ACTOR))
            self._lose()
            return False
        return True

    def _lose(self) -> None:
        """Record that the source is down, and what was added to it gone with it."""
        self.link.lose()
        self._in_source.clear()

    async def _replace(self) -> None:
        """Put another actor in the place of the dead one, and connect it."""
        with contextlib.suppress(RayError):
            ray.kill(self.handle)
        await self._actors.replace(self.index)
        await self.connect()

    def _admit(self) -> None:
        """Add the requests that may go on now."""
        if self.link.up and any(self._waits(flight) for flight in self.own()):
            self._tasks.start(self.add_missing())

    def _waits(self, flight: Flight) -> bool:
        id = flight.request.id
        return flight.recorded is None and id not in self._in_source and self.inquiry.allows(id)

    async def _look_in(self) -> None:
        """Every `COST_S` ask for the cost of steps, and tell which requests are still there: what is in the source by
        a drop that was lost would fill its KV cache. While there are any, and once more: what a step took in a busy
        hour says nothing of an idle one."""
        idle_s = COST_S
        while True:
            await asyncio.sleep(COST_S)
            idle_s = 0.0 if self._in_source else idle_s + COST_S
            if idle_s > COST_KEPT_S:
                self.cost = None
            if self.link.up and idle_s <= COST_S:
                self._calls.keep(self._in_source)
                # Whoever closes this connection has connected to another source by then.
                with contextlib.suppress(ConnectionError, RpcError, TimeoutError):
                    async with asyncio.timeout(ASK_S):
                        self.cost = await self._calls.cost()

    async def _watch_progress(self) -> None:
        """Acquit the requests that have got beyond the point at which a source died with them."""
        while True:
            # Mostly there is none, and to look at all requests five times a second would cost more than their tokens.
            await self._in_question.wait()
            await asyncio.sleep(LOOK_S)
            moved = [flight for flight in self.own() if flight.moved]
            if not (moved or self.inquiry.open):
                self._in_question.clear()
            if not (self.link.up and self._in_question.is_set()):
                continue
            with contextlib.suppress(RayError):
                passed = await self.handle.beyond_known.remote()
                self.inquiry.passed(passed)
                self._admit()
                for flight in moved:
                    flight.moved = flight.request.id not in passed

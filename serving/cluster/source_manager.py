"""The token source while the emulation runs: what is in it, and what takes its place when it dies."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection
from typing import Any, Protocol

import ray
from ray.exceptions import RayError

from serving.cluster.observer import EdgeObserver, Refuse
from serving.cluster.recorded_source import RecordedSource
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.backoff import Backoff, cause_of_deaths, from_outside, given_up, summary
from serving.cluster.supervision.connection_epoch import Link
from serving.cluster.supervision.inquiry import Inquiry
from serving.flight import Flight
from serving.process.logs import fields

log = logging.getLogger("foreserve")

ACTOR = "token source"
LOOK_S = 0.2
# What a device does not say of its buffers within so many real seconds, the source makes again.
ASK_S = 2.0
COST_S = 1.0


class Places(Protocol):
    """Where tokens go: `serving.cluster.device_manager.Devices`."""

    addresses: dict[int, Address]

    async def held(self, within_s: float) -> dict[str, tuple[int, list[int]]]: ...

    def follow(self, source: Any) -> None: ...


class SourceManager:
    """Owns the token source's actor, and those that stand by to replace it.

    A request is in the source from `add` to `drop`, through any number of deaths of the actor. When the source dies
    with the same requests twice, they go on apart until the one that is the cause is known, which is refused. `cost` is
    how long its steps take, in real seconds, and so much more for each sequence; None before it has said so.
    """

    def __init__(self, make: Callable[[], Any], standbys: int) -> None:
        """`make` starts an actor, and returns before it is there; `standbys` are started once the source is ready."""
        self._make = make
        self._handle = make()
        self._standbys: list[Any] = []
        self._wanted_standbys = standbys
        self.link = Link()
        self.backoff = Backoff()
        self.inquiry = Inquiry()
        self._in_source: set[str] = set()
        self._recorded = RecordedSource()
        self.cost: tuple[float, float] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, places: Places, flights: dict[str, Flight], observer: EdgeObserver, refuse: Refuse) -> None:
        """Run the source from now on; its addresses have been wired. `refuse` gets requests that nobody can serve."""
        self._places, self._flights, self._observer, self._refuse = places, flights, observer, refuse
        self._stand_by()
        watching = (self._run(), self._watch_progress(), self._watch_cost())
        self._tasks = [asyncio.create_task(each) for each in watching]

    def stop(self) -> None:
        """Look after it no longer; the actors end with Ray."""
        for task in self._tasks:
            task.cancel()
        self._recorded.close()

    @property
    def handle(self) -> Any:
        """The actor that is the source now."""
        return self._handle

    @property
    def standbys(self) -> list[Any]:
        """The actors that stand by."""
        return list(self._standbys)

    def wire(self, addresses: dict[int, Address]) -> Any:
        """Tell the source where tokens go; awaiting the answer waits until it is there."""
        return self._handle.wire.remote(addresses)

    def warm_up(self, request_id: str, device: int, tokens: int) -> None:
        """Have tokens made that no client waits for."""
        self._in_source.add(request_id)
        self._handle.warm_up.remote(request_id, device, tokens)

    def add(self, flight: Flight, known: list[int] | None = None) -> None:
        """Have a request's tokens made, unless the source is down or the request must wait: then it comes later."""
        if self.link.up and flight.opened and self._waits(flight):
            self._in_source.add(flight.request.id)
            self._handle.add.remote(flight.core_request, flight.device, known or [])

    def resume(self, flight: Flight) -> None:
        """Have a request's tokens sent to its device again, from the token that its client has."""
        if flight.recorded is not None:
            self._recorded.send(flight, self._places.addresses)
        elif flight.request.id in self._in_source:
            self._handle.resend.remote(flight.request.id, len(flight.tokens), flight.device)
        else:
            self.add(flight, flight.tokens)

    def drop(self, request_ids: Collection[str]) -> None:
        """Forget requests: done, or aborted."""
        # A call takes a third of a millisecond: none for what was recorded.
        if there := self._in_source.intersection(request_ids):
            self._handle.drop.remote(list(there))
            self._in_source -= there
        if self.inquiry.open:
            self.inquiry.gone(request_ids)
            self._admit()

    async def _run(self) -> None:
        while True:
            try:
                await self._handle.run.remote()
            except RayError as error:
                self.link.lose()
                sentence = "The token source stopped (%s); it starts again."
                log.error(sentence, summary(error), extra=fields(actor=ACTOR))
                self._observer.on_restart(ACTOR)
                self._suspect(by_itself=not from_outside(error))
                while not await self._recovered():
                    self._give_up()

    def _suspect(self, by_itself: bool) -> None:
        at_work = [id for id in reversed(self._flights) if id in self._in_source]
        culprit = self.inquiry.death(at_work, by_itself)
        if culprit is not None and culprit in self._flights:
            self._refuse(self._flights[culprit], cause_of_deaths(ACTOR))

    def _give_up(self) -> None:
        """Refuse what waits for a source that does not come back."""
        if self.backoff.given_up:
            for flight in list(self._flights.values()):
                self._refuse(flight, given_up("The token source"))

    async def _recovered(self) -> bool:
        """Replace the source by one that stands by, or by a new one; it makes again what the old one had made."""
        await asyncio.sleep(self.backoff.failed(time.monotonic()))
        with contextlib.suppress(RayError):
            ray.kill(self._handle)
        self._handle = self._standbys.pop(0) if self._standbys else self._make()
        self._in_source.clear()
        try:
            await self.wire(self._places.addresses)
        except RayError as error:
            log.error("The token source does not start (%s).", summary(error), extra=fields(actor=ACTOR))
            return False
        self._places.follow(self._handle)
        self.link.up = True
        await self._add_missing()
        self._stand_by()
        return True

    def _stand_by(self) -> None:
        while len(self._standbys) < self._wanted_standbys:
            self._standbys.append(self._make())

    def lose_standby(self, handle: Any) -> None:
        """Replace one that stands by and is dead."""
        if handle in self._standbys:
            self._standbys.remove(handle)
            self._stand_by()

    def _admit(self) -> None:
        """Add who may go on now."""
        if self.link.up and any(self._waits(flight) for flight in self._flights.values()):
            self._tasks.append(asyncio.create_task(self._add_missing()))
            self._tasks = [task for task in self._tasks if not task.done()]

    def _waits(self, flight: Flight) -> bool:
        id = flight.request.id
        return flight.recorded is None and id not in self._in_source and self.inquiry.allows(id)

    async def _add_missing(self) -> None:
        state, held = self.link.state, await self._places.held(ASK_S)
        if state != self.link.state:
            return
        for flight in list(self._flights.values()):
            taken, ready = held.get(flight.request.id, (len(flight.tokens), []))
            # What the device took and sent may still be on its way here: then its buffer begins later than we know.
            self.add(flight, flight.tokens + (ready if taken == len(flight.tokens) else []))

    async def _watch_cost(self) -> None:
        """Ask now and then how long steps take, while there are any."""
        while True:
            await asyncio.sleep(COST_S)
            if self.link.up and self._in_source:
                with contextlib.suppress(RayError):
                    self.cost = await self._handle.cost.remote()

    async def _watch_progress(self) -> None:
        """Acquit those that have got beyond the point at which the source died."""
        while True:
            await asyncio.sleep(LOOK_S)
            if not (self.inquiry.open and self.link.up):
                continue
            with contextlib.suppress(RayError):
                passed = await self._handle.beyond_known.remote()
                self.inquiry.passed(passed)
                self._admit()

"""The edge's side of the devices: sends requests out, takes releases in, and mends the token source."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection

import ray
from ray.exceptions import RayError

from serving.clock import WallClock
from serving.cluster import Cluster, Node
from serving.devices import Devices
from serving.flight import Flight, unseen
from serving.flow import Chunk, Release, Request
from serving.link import Link
from serving.observing.logs import fields
from serving.patience import persist, summary
from serving.policies.routing import make_policy
from serving.router import Router
from serving.wire import Inbox

log = logging.getLogger("foreserve")

# A request that was in flight each time the token source failed is taken for the cause.
MAX_FAILURES = 3

Deliver = Callable[[Release, list[tuple[Flight, Chunk]]], None]


class Dispatcher:
    """Owns the flights, by request id. `deliver(release, news)` gets what clients have not seen yet."""

    def __init__(self, cluster: Cluster, nodes: list[Node], inbox: Inbox[list[Release]]) -> None:
        self.flights: dict[str, Flight] = {}
        self.clock = WallClock(*cluster.clock)
        self._source = cluster.source
        self._router = Router(make_policy(cluster.scenario.router))
        self.devices = Devices(cluster, nodes, self._router, self.flights)
        self._inbox = inbox
        self._deliver: Deliver = lambda release, news: None
        self._source_link = Link()
        self._tasks: list[asyncio.Task[None]] = []
        self.on_restart: Callable[[str], None] = lambda actor: None
        self.on_hopeless: Callable[[Flight], None] = lambda flight: None

    async def start(self, deliver: Deliver) -> None:
        """Connect the actors, and run them."""
        self._deliver = deliver
        self._inbox.start(self._receive)
        self.devices.on_restart = lambda actor: self.on_restart(actor)
        self._tasks = [asyncio.create_task(self._run_source())]
        await self.devices.start()

    def stop(self) -> None:
        """Stop listening; the actors end with Ray."""
        for task in self._tasks:
            task.cancel()
        self.devices.stop()
        self._inbox.close()

    def choose(self, request: Request, named: int | None) -> int:
        """A device for a request: the one its client named, if it serves, or the router's choice."""
        return self._router.choose(request, named)

    def in_flight(self, device: int) -> int:
        """Requests in flight on a device."""
        return self._router.in_flight(device)

    async def submit(self, flight: Flight) -> None:
        """Send a request on its way. Whatever is down at the moment gets it when it is up again."""
        self.flights[flight.request.id] = flight
        id, node = flight.request.id, self.devices.nodes[flight.device]
        seen, source_seen = node.link.state, self._source_link.state
        if seen is not None:
            # Awaited, so that the buffer is there before the first token; if it fails, recovery sees to it.
            with contextlib.suppress(RayError):
                await node.device.open.remote(id, 0)
            if id in self.flights and node.link.state == seen:
                node.scheduler.submit.remote(flight.request)
        if id in self.flights and source_seen is not None and self._source_link.state == source_seen:
            self._source.add.remote(flight.core_request, flight.device, [])

    def abort(self, request_ids: Collection[str]) -> list[Flight]:
        """Stop requests, on the device at the end of its step; those that were in flight."""
        flights = [flight for id in request_ids if (flight := self.flights.get(id))]
        for node in self.devices.up:
            ids = [flight.request.id for flight in flights if flight.device == node.index]
            if ids:
                node.scheduler.abort.remote(ids)
                node.device.close.remote(ids)
        self._forget(flights)
        return flights

    def _forget(self, flights: list[Flight]) -> None:
        if not flights:
            return
        for flight in flights:
            del self.flights[flight.request.id]
        self._router.done((flight.device, flight.request) for flight in flights)
        self._source.drop.remote([flight.request.id for flight in flights])
        self.devices.departed(flight.device for flight in flights)

    def _receive(self, releases: list[Release]) -> None:
        for release in releases:
            # What a device had sent before it was lost, and was not here by then, comes from the next one.
            if self.devices.nodes[release.device].up:
                self._take(release)

    def _take(self, release: Release) -> None:
        for id in release.started:
            if (flight := self.flights.get(id)) and flight.started_s is None:
                flight.started_s = release.start_s
        news = unseen(self.flights, release.chunks)
        self._forget([flight for flight, chunk in news if chunk.finish is not None])
        self._deliver(release, news)

    async def _run_source(self) -> None:
        while True:
            try:
                await self._source.run.remote()
            except RayError as error:
                self._source_link.lose()
                log.error(
                    "The token source stopped (%s); it starts again.",
                    summary(error),
                    extra=fields(actor="token source"),
                )
                self.on_restart("token source")
                await self._end_hopeless()
                if not isinstance(error, ray.exceptions.ActorDiedError | ray.exceptions.ActorUnavailableError):
                    # vLLM failed inside: its state is not to be trusted, so its process goes too.
                    ray.kill(self._source, no_restart=False)
                await persist(self._recover_source)

    async def _end_hopeless(self) -> None:
        for flight in list(self.flights.values()):
            flight.failures += 1
            if flight.failures >= MAX_FAILURES:
                self.abort([flight.request.id])
                self.on_hopeless(flight)

    async def _recover_source(self) -> None:
        """A new token source makes again what the old one had made, and goes on from there."""
        self._source_link.lose()
        await self._source.wire.remote(self.devices.addresses)
        held: dict[str, tuple[int, list[int]]] = {}
        for node in self.devices.up:
            held |= await node.device.held.remote()
        self._source_link.up = True
        for flight in self.flights.values():
            taken, ready = held.get(flight.request.id, (len(flight.tokens), []))
            # What the device took and sent may still be on its way here: then its buffer begins later than we know.
            known = flight.tokens + (ready if taken == len(flight.tokens) else [])
            self._source.add.remote(flight.core_request, flight.device, known)

"""The edge's side of the devices: sends requests out, takes releases in, and mends what dies between."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection

import ray
from ray.exceptions import RayError

from serving.clock import WallClock
from serving.cluster import Cluster, Node
from serving.flight import Flight, unseen
from serving.flow import Chunk, Release
from serving.link import Link
from serving.router import LeastLoaded
from serving.wire import Inbox

log = logging.getLogger("foreserve")

# A request that was in flight each time the token source failed is taken for the cause.
MAX_FAILURES = 3
RETRY_S = 0.1
WARM_UP_TOKENS = 16

Deliver = Callable[[Release, list[tuple[Flight, Chunk]]], None]


class Dispatcher:
    """Owns the flights, by request id. `deliver(release, news)` gets what clients have not seen yet."""

    def __init__(self, cluster: Cluster, clock: WallClock, ahead: int, inbox: Inbox[list[Release]]) -> None:
        self.flights: dict[str, Flight] = {}
        self.clock = clock
        self._cluster = cluster
        self._router = LeastLoaded(len(cluster.nodes))
        self._ahead = ahead
        self._inbox = inbox
        self._deliver: Deliver = lambda release, news: None
        self._addresses: dict[int, str] = {}
        self._links = {node.index: Link() for node in cluster.nodes}
        self._source_link = Link()
        self._tasks: list[asyncio.Task[None]] = []
        self.on_restart: Callable[[str], None] = lambda actor: None
        self.on_hopeless: Callable[[Flight], None] = lambda flight: None

    async def start(self, deliver: Deliver) -> None:
        """Connect the actors, and run them."""
        self._deliver = deliver
        self._inbox.start(self._receive)
        for node in self._cluster.nodes:
            await self._wire(node)
        await self._cluster.source.wire.remote(self._addresses)
        loops = [self._run_node(node) for node in self._cluster.nodes]
        loops += [self._run_source()]
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        await asyncio.gather(*(self._warm_up(node) for node in self._cluster.nodes))

    async def _warm_up(self, node: Node) -> None:
        """Have tokens made for a device that it never releases: first calls and first steps take their time."""
        id = f"warm-up-{node.index}"
        await node.device.open.remote(id, 0)
        self._cluster.source.warm_up.remote(id, node.index, WARM_UP_TOKENS)
        while len((await node.device.held.remote())[id][1]) < WARM_UP_TOKENS:
            await asyncio.sleep(0.01)
        node.device.close.remote([id])
        self._cluster.source.drop.remote([id])

    def stop(self) -> None:
        """Stop listening; the actors end with Ray."""
        for task in self._tasks:
            task.cancel()
        self._inbox.close()

    def choose(self, named: int | None) -> int:
        """A device for a request: the one its client named, or the router's choice."""
        if named is None:
            return self._router.choose()
        self._router.take(named)
        return named

    def idle(self, device: int) -> bool:
        """Whether no request is in flight on a device."""
        return self._router.idle(device)

    async def submit(self, flight: Flight) -> None:
        """Send a request on its way. Whatever is down at the moment gets it when it is up again."""
        self.flights[flight.request.id] = flight
        id, node, link = flight.request.id, self._cluster.nodes[flight.device], self._links[flight.device]
        seen, source_seen = link.state, self._source_link.state
        if seen is not None:
            # Awaited, so that the buffer is there before the first token; if it fails, recovery sees to it.
            with contextlib.suppress(RayError):
                await node.device.open.remote(id, 0)
            if id in self.flights and link.state == seen:
                node.scheduler.submit.remote(flight.request)
        if id in self.flights and source_seen is not None and self._source_link.state == source_seen:
            self._cluster.source.add.remote(flight.core_request, flight.device, [])

    def abort(self, request_ids: Collection[str]) -> list[Flight]:
        """Stop requests, on the device at the end of its step; those that were in flight."""
        flights = [flight for id in request_ids if (flight := self.flights.get(id))]
        for node in self._cluster.nodes:
            ids = [flight.request.id for flight in flights if flight.device == node.index]
            if ids:
                node.scheduler.abort.remote(ids)
                node.device.close.remote(ids)
        self._forget(flights)
        return flights

    def _forget(self, flights: list[Flight]) -> None:
        if flights:
            self._router.done([flight.device for flight in flights])
            self._cluster.source.drop.remote([flight.request.id for flight in flights])
        for flight in flights:
            del self.flights[flight.request.id]

    def _receive(self, releases: list[Release]) -> None:
        for release in releases:
            self._take(release)

    def _take(self, release: Release) -> None:
        for id in release.started:
            if (flight := self.flights.get(id)) and flight.started_s is None:
                flight.started_s = release.start_s
        news = unseen(self.flights, release.chunks)
        self._forget([flight for flight, chunk in news if chunk.finish is not None])
        self._deliver(release, news)

    async def _run_node(self, node: Node) -> None:
        while True:
            try:
                await node.device.run.remote()
            except RayError as error:
                self._links[node.index].lose()
                log.error("Device %d stopped (%s); it goes on where it was.", node.index, summary(error))
                self.on_restart(f"device {node.index}")
                await self._persist(lambda: self._recover(node))

    async def _wire(self, node: Node) -> None:
        await node.scheduler.reset.remote(node.device)
        cluster = self._cluster
        self._addresses[node.index] = await node.device.wire.remote(
            node.scheduler, cluster.model, node.tier, cluster.source, self._ahead
        )

    async def _recover(self, node: Node) -> None:
        """A device and a scheduler, fresh or reset, take up their requests at the token each client has."""
        link = self._links[node.index]
        link.lose()
        await self._wire(node)
        # Sent before what follows, and to one actor calls come in order.
        self._cluster.source.wire.remote(self._addresses)
        link.up = True
        flights = [flight for flight in self.flights.values() if flight.device == node.index]
        resumed = [flight.resumed for flight in flights]
        # Awaited, so that no token is there before its buffer is.
        await asyncio.gather(*(node.device.open.remote(request.id, request.released) for request in resumed))
        for request in resumed:
            if request.id in self.flights:
                node.scheduler.submit.remote(request)
                self._cluster.source.resend.remote(request.id, request.released)

    async def _run_source(self) -> None:
        while True:
            try:
                await self._cluster.source.run.remote()
            except RayError as error:
                self._source_link.lose()
                log.error("The token source stopped (%s); it starts again.", summary(error))
                self.on_restart("token source")
                await self._end_hopeless()
                if not isinstance(error, ray.exceptions.ActorDiedError | ray.exceptions.ActorUnavailableError):
                    # vLLM failed inside: its state is not to be trusted, so its process goes too.
                    ray.kill(self._cluster.source, no_restart=False)
                await self._persist(self._recover_source)

    async def _end_hopeless(self) -> None:
        for flight in list(self.flights.values()):
            flight.failures += 1
            if flight.failures >= MAX_FAILURES:
                self.abort([flight.request.id])
                self.on_hopeless(flight)

    async def _recover_source(self) -> None:
        """A new token source makes again what the old one had made, and goes on from there."""
        self._source_link.lose()
        await self._cluster.source.wire.remote(self._addresses)
        held: dict[str, tuple[int, list[int]]] = {}
        for node in self._cluster.nodes:
            held |= await node.device.held.remote()
        self._source_link.up = True
        for flight in self.flights.values():
            taken, ready = held.get(flight.request.id, (len(flight.tokens), []))
            # What the device took and sent may still be on its way here: then its buffer begins later than we know.
            known = flight.tokens + (ready if taken == len(flight.tokens) else [])
            self._cluster.source.add.remote(flight.core_request, flight.device, known)

    async def _persist(self, attempt: Callable[[], Awaitable[None]]) -> None:
        """Try until it works: a restarting actor refuses calls until it is there."""
        while True:
            try:
                return await attempt()
            except RayError:
                await asyncio.sleep(RETRY_S)


def summary(error: Exception) -> str:
    """The last line of an error that Ray has wrapped: the one that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__

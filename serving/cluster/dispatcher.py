"""The edge's dispatcher: sends requests to the devices, and takes their releases in."""

import asyncio
import contextlib
import logging
from collections.abc import Collection
from functools import partial
from typing import NamedTuple, Protocol

from serving.cluster.cluster import Cluster
from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.device_manager import Devices
from serving.cluster.lost_requests import LostRequests
from serving.cluster.node import Node
from serving.cluster.observer import EdgeObserver, LiveFlights, Refuse
from serving.cluster.recovery import GONE
from serving.cluster.sources.token_sources import TokenSources
from serving.cluster.streams.stream import Inbox
from serving.flight import Flight, gapped, mark, unseen
from serving.policies.router import Router
from serving.types import Chunk, DroppedMessages, Release, Request

log = logging.getLogger("foreserve")


class Deliveries(Protocol):
    """Takes what clients are to get, and hands it on: see `serving.edge.delivery.deliveries`."""

    def add(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None: ...

    def flush(self) -> None: ...


class EmulationActors(NamedTuple):
    """The started actors of an emulation: its common parts, its devices, and the inbox of their releases."""

    cluster: Cluster
    nodes: list[Node]
    inbox: Inbox[list[Release]]


class Dispatcher:
    """The flights, by request id, on their way to the devices and back.

    `deliveries` get the chunks that clients have not seen yet, and `fail` the flights that nobody can serve, each with
    a sentence for its client.
    """

    def __init__(self, actors: EmulationActors, observer: EdgeObserver, deliveries: Deliveries, fail: Refuse) -> None:
        cluster, nodes, self._inbox = actors
        self.flights: dict[str, Flight] = {}
        self._router = Router(cluster.scenario.router_spec.policy())
        self._observer, self._deliveries, self._fail = observer, deliveries, fail
        live = LiveFlights(self.flights, observer, self._refuse)
        buffers = DeviceBuffers({node.index: node for node in nodes})
        self.sources = TokenSources(cluster.sources, live, buffers)
        self.devices = Devices(cluster, self._router, live, self.sources, buffers)
        self._lost = LostRequests(
            self.flights, self.devices.nodes, self.sources.remind, self.devices.recovery.send_again
        )
        self._looking: asyncio.Task[None] | None = None
        self._stopped = False

    async def start(self) -> None:
        """Connect the actors, run the devices and the token sources, and warm them up."""
        self._inbox.start(self._receive, partial(self._observer.on_dropped, "edge"), self._deliveries.flush)
        await self.devices.start()
        self.sources.start()
        await self.devices.warm_up()
        self._looking = asyncio.create_task(self._lost.run())

    def stop(self) -> None:
        """Stop receiving, and calling; the actors end with Ray."""
        self._stopped = True
        if self._looking is not None:
            self._looking.cancel()
        self.sources.stop()
        self.devices.stop()
        self._inbox.close()

    def choose(self, request: Request, named: int | None) -> int:
        """Return a device for a request: the one its client named, if it serves, or the router's choice."""
        return self._router.choose(request, named)

    def in_flight(self, device: int) -> int:
        """Return the number of requests in flight on a device."""
        return self._router.in_flight(device)

    async def submit(self, flight: Flight) -> None:
        """Send a request to its device. A device that is down gets it when it is up again."""
        self.flights[flight.request.id] = flight
        with contextlib.suppress(*GONE):
            await self.devices.recovery.send(self.devices.nodes[flight.device], flight)

    def abort(self, request_ids: Collection[str]) -> list[Flight]:
        """Stop requests, on the device at the end of its step; return those that were in flight."""
        flights = self.drop(request_ids)
        self._forget(flights)
        return flights

    def drop(self, request_ids: Collection[str]) -> list[Flight]:
        """Stop requests on their devices; return those that are in flight."""
        if self._stopped:
            # A request cancelled after the stop: a call now would start another Ray.
            return []
        flights = [flight for id in request_ids if (flight := self.flights.get(id))]
        for node in self.devices.up:
            ids = [flight.request.id for flight in flights if flight.device == node.index]
            if ids:
                node.calls.drop(ids)
        return flights

    def _forget(self, flights: list[Flight]) -> None:
        if not flights:
            return
        for flight in flights:
            del self.flights[flight.request.id]
        self._router.done((flight.device, flight.request) for flight in flights)
        self.sources.drop([flight.request.id for flight in flights])
        for flight in flights:
            self.devices.recovery.gone(self.devices.nodes[flight.device], [flight.request.id])
        self.devices.departed(flight.device for flight in flights)

    def _refuse(self, flight: Flight, why: str) -> None:
        """End a request that cannot be served."""
        if self.abort([flight.request.id]):
            self._fail(flight, why)

    def _receive(self, releases: list[Release]) -> None:
        for release in releases:
            # Late releases of a lost device are dropped: the next device of its requests sends those tokens.
            node = self.devices.nodes.get(release.device)
            if node is None or not node.up:
                continue
            # Whatever is wrong with one release, others come with it.
            try:
                self._take(release)
            except Exception as error:
                log.exception("A release of device %d could not be taken in.", release.device)
                self._observer.on_dropped("edge", DroppedMessages(1, f"{type(error).__name__}: {error}"))

    def _take(self, release: Release) -> None:
        mark(self.flights, release)
        news = unseen(self.flights, release.chunks)
        node = self.devices.nodes[release.device]
        if release.unknown:
            self._lost.take_unknown(node, release.unknown)
        if len(news) < len(release.chunks):
            self._close_gaps(node, release.chunks)
        if node.inquiry.open:
            self.devices.recovery.passed(node, [flight.request.id for flight, _ in news])
        self._forget([flight for flight, chunk in news if chunk.finish is not None])
        self._deliveries.add(release, news)
        self.sources.follow_clients(news)

    def _close_gaps(self, node: Node, chunks: list[Chunk]) -> None:
        """Have a device go on from where clients are, if something that came before these chunks was lost."""
        now = (node.index, node.link.state)
        if lost := [flight for flight in gapped(self.flights, chunks) if flight.sent_to == now and flight.opened]:
            self.devices.recovery.send_again(node, lost)

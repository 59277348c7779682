"""The token sources of an emulation: each request is made by one of them, and by another one if that dies."""

import asyncio
from collections.abc import Collection

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.observer import LiveFlights
from serving.cluster.sources.manager import SourceManager
from serving.cluster.sources.recorded_source import RecordedSource
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.streams.sockets import Address
from serving.flight import Flight
from serving.process.background import BackgroundTasks
from serving.types import Chunk


class TokenSources:
    """The sources among which requests are shared out: by data-parallel rank if a request names one, else to the least
    loaded source that is up. Recorded text has a source of its own."""

    def __init__(self, actors: SourceActors, live: LiveFlights, buffers: DeviceBuffers) -> None:
        self.actors, self._buffers = actors, buffers
        self.all = [SourceManager(index, actors, live, buffers, self) for index in range(len(actors.running))]
        self._recorded = RecordedSource(buffers.addresses)
        self._tasks = BackgroundTasks()

    async def connect(self) -> None:
        """Wait until all sources are up, and tell them the devices' addresses. Raise RayError if one does not start."""
        await asyncio.gather(*(source.come_up() for source in self.all))

    def start(self) -> None:
        """Run the sources from now on; call `connect` first."""
        for source in self.all:
            source.start()
        self.actors.stand_by()

    def stop(self) -> None:
        """Stop looking after the sources; their actors end with Ray."""
        self._tasks.stop()
        for source in self.all:
            source.stop()
        self._recorded.close()

    @property
    def addresses(self) -> dict[int, Address]:
        """The address of each source that has one, by index."""
        return {source.index: source.address for source in self.all if source.address is not None}

    @property
    def cost(self) -> tuple[float, float] | None:
        """The slowest source's real seconds of a step, and more for each sequence in it; None before any has told."""
        return max((source.cost for source in self.all if source.cost is not None), default=None)

    @property
    def up(self) -> int:
        """How many sources are up."""
        return sum(source.link.up for source in self.all)

    def tell_addresses(self) -> None:
        """Tell the sources the devices' addresses from now on."""
        for source in self.all:
            source.tell_addresses()

    def warm_up(self, request_id: str, device: int, tokens: int) -> None:
        """Have each source make tokens for a device that no client waits for; all sources make the same ones."""
        for source in self.all:
            source.warm_up(request_id, device, tokens)

    def resume(self, flight: Flight, position: int) -> None:
        """Have a request's tokens sent to its device, whose buffer begins at `position` of its output."""
        if flight.recorded is not None:
            self._recorded.send(flight, position)
            return
        if flight.source is None:
            flight.source = self._source_for(flight).index
        self.all[flight.source].resume(flight, position)

    def remind(self, flight: Flight, position: int) -> None:
        """Have a request's tokens sent to its device, which has long waited for those from `position` of its output on:
        its own reminders don't help."""
        if flight.recorded is not None:
            self._recorded.send(flight, position)
        elif flight.source is not None:
            self.all[flight.source].remind(flight, position)

    def follow_clients(self, news: list[tuple[Flight, Chunk]]) -> None:
        """Have tokens sent that are due now that clients have got these."""
        self._recorded.follow(news)

    def drop(self, request_ids: Collection[str]) -> None:
        """Forget requests that are done or aborted."""
        self._recorded.drop(request_ids)
        for source in self.all:
            source.drop(request_ids)

    def _source_for(self, flight: Flight) -> SourceManager:
        if flight.rank is not None:
            return self.all[flight.rank % len(self.all)]
        return min(self.all, key=lambda source: (not source.link.up, source.load))

    def move(self, flights: list[Flight]) -> None:
        """Move the requests of a source that was ended from outside to others, if any is up.

        A request moves once, and again once it has got on: if it is the unseen cause, it must not end one source after
        the other.
        """
        coming = {source.index: source.load for source in self.all if source.link.up}
        takers = set[int]()
        for flight in flights if coming else ():
            if flight.moved or flight.source is None:
                continue
            self.all[flight.source].inquiry.gone([flight.request.id])
            taker = flight.source = min(coming, key=lambda index: coming[index])
            flight.moved = True
            self.all[taker].question()
            coming[taker] += 1
            takers.add(taker)
        for taker in takers:
            self._tasks.start(self.all[taker].add_missing())

    def relieve(self) -> None:
        """Move the requests that wait for a source: another one has just come up."""
        for source in self.all:
            if source.is_forsaken:
                self.move(source.own())

    def follow(self) -> None:
        """Tell the devices the addresses of all sources."""
        self._buffers.follow(self.addresses)

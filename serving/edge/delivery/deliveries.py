"""Deliveries: what releases give requests, on its way to their front ends, and then told to the observer."""

from collections import deque
from collections.abc import Sequence

from vllm.v1.engine import FinishReason

from serving.clock import WallClock
from serving.cluster.observer import EdgeObserver
from serving.edge.delivery.output_queue import OutputQueue
from serving.edge.delivery.outputs import by_sink
from serving.flight import Flight, Sink, TokenNews, take
from serving.types import Chunk, Release


class Deliveries:
    """The outputs of requests, by `outputs` to this process's own front end, and to the sinks of others."""

    def __init__(self, observer: EdgeObserver, clock: WallClock) -> None:
        self.outputs = OutputQueue(self.note_delay)
        self._observer, self._clock = observer, clock
        self._unrecorded = deque[tuple[Release, list[tuple[Flight, Chunk]], TokenNews]]()

    def add(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        """Add a release's chunks. They go out by `flush`."""
        # Before the next release, which may come before all of this is recorded, flights have these tokens.
        self._observer.on_release(release, news)
        taken = take(release.device, news, release.at_s, overdue=release.record is None)
        self._unrecorded.append((release, news, taken))
        for sink, those in by_sink(news).items():
            self._hand_over(sink, release, those)

    def flush(self) -> None:
        """Write what was added, for which clients wait, and then record it."""
        try:
            self.outputs.flush()
        finally:
            while self._unrecorded:
                self._record(*self._unrecorded.popleft())

    def catch_up(self, flight: Flight, first: int, tokens: list[int]) -> None:
        """Count tokens of a request, from position `first` of its output on, that its edge has from the device, and of
        which the device has not told yet."""
        if first <= flight.made < first + len(tokens):
            told = Chunk(flight.request.id, flight.made, tokens[flight.made - first :])
            self.add(Release(flight.device, self._clock.now(), []), [(flight, told)])
            self.flush()

    def end(self, flight: Flight, reason: FinishReason, why: str | None = None) -> None:
        """End a request that has left its device, and tell its client."""
        self.finish(flight, reason)
        last = Chunk(flight.request.id, len(flight.tokens), [], int(reason), why)
        self._hand_over(flight.sink, Release(flight.device, self._clock.now(), []), [(flight, last)])
        self.outputs.flush()

    def finish(self, flight: Flight, reason: FinishReason) -> None:
        """Take note of how a request has ended."""
        flight.finish = str(reason)
        self._observer.on_finish(flight)

    def note_delay(self, device: int, at_s: float) -> None:
        """Take note that what a device had at an instant has gone out just now."""
        self._observer.on_delivery(device, self._clock.late(at_s))

    def note_delays(self, delays: Sequence[tuple[int, float]]) -> None:
        """Take note of devices' deliveries elsewhere, each so many real seconds late."""
        for device, late_s in delays:
            self._observer.on_delivery(device, late_s)

    def _hand_over(self, sink: Sink | None, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        if sink is not None:
            sink.deliver(release, news)
        else:
            self.outputs.put_chunks(release.device, release.at_s, [chunk for _, chunk in news])

    def _record(self, release: Release, news: list[tuple[Flight, Chunk]], taken: TokenNews) -> None:
        self._observer.on_tokens(taken)
        for flight, chunk in news:
            if chunk.finish is not None:
                self.finish(flight, FinishReason(chunk.finish))
        if release.record is not None:
            self._observer.on_step(release.record)

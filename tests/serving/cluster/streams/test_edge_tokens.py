"""Do edges of their own get their requests' tokens straight from a device, and does the engine core hear of all?"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.clock import WallClock
from serving.cluster.actor_proxies import ReleaseSink
from serving.cluster.streams import edge_tokens, sockets
from serving.cluster.streams.sockets import Host
from serving.cluster.streams.stream import Inbox
from serving.types import Chunk, DroppedMessages, Release, StepRecord

PATIENCE_S = 10.0
STEP = StepRecord(0, "ar", "decode", 0.0, 0.01, 1, 1, (0.01,), (1e6, 2e6), 10, 4, 0, 0, 100, 0, 0)
Told = list[list[tuple[str, int]]]


@pytest.fixture(autouse=True)
def one_node(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Say that all is on one node: no Ray is needed to tell."""
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    yield


class Receiver:
    """An edge, or the engine core: each message that came, as its chunks' requests and positions."""

    def __init__(self, folder: Path, name: str) -> None:
        self.told: Told = []
        self.inbox: Inbox[list[Release]] = Inbox(list[Release], folder / "here", name, Host("here"))
        self.inbox.start(self._take, self._fail)

    async def hears(self, messages: int) -> Told:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.told) < messages:
                await asyncio.sleep(0.001)
        return self.told

    def _take(self, releases: list[Release]) -> None:
        self.told.append([(chunk.request_id, chunk.first) for each in releases for chunk in each.chunks])

    def _fail(self, dropped: DroppedMessages) -> None:
        pytest.fail(dropped.why)


def release(sink: ReleaseSink, clock: WallClock, *chunks: Chunk) -> None:
    sink(Release(0, clock.now(), list(chunks), record=STEP))


def test_the_core_hands_on_first_and_last_tokens_and_hears_of_the_others_before(tmp_path: Path) -> None:
    async def run() -> None:
        core, one, another = (Receiver(tmp_path, name) for name in ("core", "one", "another"))
        clock = WallClock(time.time())
        sink = ReleaseSink(core.inbox.address, clock)
        sink._told_s = time.monotonic() + PATIENCE_S  # Nothing is told because it has waited.
        for id, inbox in (("a", one.inbox.address), ("b", another.inbox.address), ("inside", None)):
            sink.edges.open(id, inbox)
        release(sink, clock, Chunk("a", 0, [7]))
        assert await core.hears(1) == [[("a", 0)]]
        sink._told_s = time.monotonic() + PATIENCE_S
        release(sink, clock, Chunk("a", 1, [7]), Chunk("b", 4, [7]))
        release(sink, clock, Chunk("a", 2, [7]))
        assert await one.hears(2) == [[("a", 1)], [("a", 2)]] and await another.hears(1) == [[("b", 4)]]
        assert len(core.told) == 1
        # An end, and whose edge is inside, go by the core at once, behind what it has not been told.
        release(sink, clock, Chunk("a", 3, [7], 0), Chunk("b", 5, [7]))
        assert (await core.hears(2))[1] == [("a", 1), ("b", 4), ("a", 2), ("a", 3), ("b", 5)]
        sink._told_s = time.monotonic() + PATIENCE_S
        release(sink, clock, Chunk("inside", 8, [7]))
        assert (await core.hears(3))[2] == [("inside", 8)]
        assert await another.hears(2) == [[("b", 4)], [("b", 5)]] and len(one.told) == 2
        for each in (core, one, another):
            each.inbox.close()

    asyncio.run(run())


def test_who_is_closed_gets_nothing_more_and_the_core_hears_what_he_got(tmp_path: Path) -> None:
    async def run() -> None:
        core, edge = Receiver(tmp_path, "core"), Receiver(tmp_path, "edge")
        clock = WallClock(time.time())
        sink = ReleaseSink(core.inbox.address, clock)
        sink._told_s = time.monotonic() + PATIENCE_S
        for id in ("a", "b"):
            sink.edges.open(id, edge.inbox.address)
        release(sink, clock, Chunk("a", 1, [7]))
        sink.close(["a", "unknown"])
        assert await core.hears(1) == [[("a", 1)]]
        sink._told_s = time.monotonic() + PATIENCE_S
        release(sink, clock, Chunk("a", 2, [7]), Chunk("b", 1, [7]))
        assert (await core.hears(2))[1] == [("a", 2), ("b", 1)], "a's goes the way of all others"
        assert await edge.hears(2) == [[("a", 1)], [("b", 1)]]
        sink._told_s = time.monotonic() + PATIENCE_S
        release(sink, clock, Chunk("b", 2, [7]))
        sink.flush_all()
        assert (await core.hears(3))[2] == [("b", 2)]
        for each in (core, edge):
            each.inbox.close()

    asyncio.run(run())


def test_the_core_hears_at_once_of_requests_that_a_device_does_not_know(tmp_path: Path) -> None:
    async def run() -> None:
        core, edge = Receiver(tmp_path, "core"), Receiver(tmp_path, "edge")
        sink = ReleaseSink(core.inbox.address, WallClock(time.time()))
        sink._told_s = time.monotonic() + PATIENCE_S
        sink.edges.open("a", edge.inbox.address)
        sink(Release(0, 0.0, [], unknown=["b"]))
        assert await core.hears(1) == [[]] and not edge.told
        for each in (core, edge):
            each.inbox.close()

    asyncio.run(run())


def test_a_device_that_begins_anew_tells_nothing_of_what_it_had(tmp_path: Path) -> None:
    async def run() -> None:
        core, edge = Receiver(tmp_path, "core"), Receiver(tmp_path, "edge")
        clock = WallClock(time.time())
        sink = ReleaseSink(core.inbox.address, clock)
        sink._told_s = time.monotonic() + PATIENCE_S
        sink.edges.open("a", edge.inbox.address)
        release(sink, clock, Chunk("a", 1, [7]))
        sink.forget()
        sink.flush_all()
        release(sink, clock, Chunk("a", 2, [7]))
        assert await core.hears(1) == [[("a", 2)]], "it goes the way of all others"
        assert await edge.hears(1) == [[("a", 1)]]
        for each in (core, edge):
            each.inbox.close()

    asyncio.run(run())


def test_an_edge_that_takes_anothers_place_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        core, before, after = (Receiver(tmp_path, name) for name in ("core", "before", "after"))
        clock = WallClock(time.time())
        sink = ReleaseSink(core.inbox.address, clock)
        sink.edges.open("a", before.inbox.address)
        release(sink, clock, Chunk("a", 1, [7]))
        await before.hears(1)
        sink.close(["a"])
        before.inbox.close()
        sink.edges.open("b", after.inbox.address)
        release(sink, clock, Chunk("b", 1, [7]))
        assert await after.hears(1) == [[("b", 1)]]
        # Where many are left, those are closed that nobody wants.
        assert len(sink.edges._senders) == 2
        monkeypatch.setattr(edge_tokens, "MOST_SENDERS", 2)
        third = Receiver(tmp_path, "third")
        sink.edges.open("c", third.inbox.address)
        release(sink, clock, Chunk("c", 1, [7]))
        assert await third.hears(1) == [[("c", 1)]]
        assert list(sink.edges._senders) == [after.inbox.address, third.inbox.address]
        third.inbox.close()
        for each in (core, after):
            each.inbox.close()

    asyncio.run(run())

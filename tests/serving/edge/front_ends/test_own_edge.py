"""Does the engine core give an edge of its own what was lost on the way from a device, and end requests when all that
devices gave them is counted?"""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from serving.cluster.streams import sockets
from serving.cluster.streams.sockets import Host
from serving.cluster.streams.stream import Inbox
from serving.edge.front_ends.edge_messages import INBOX, MISSING, STOP, MissingTokens, StoppedRequests, TokenInbox
from serving.edge.front_ends.own_edge import SETTLE_S, OwnEdge
from serving.flight import Flight
from serving.types import Chunk, DroppedMessages, Release, Request

PATIENCE_S = 10.0


@pytest.fixture(autouse=True)
def one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that all is on one node: no Ray is needed to tell."""
    monkeypatch.setattr(sockets, "this_node", lambda: "here")


class Core:
    """What an edge asks of the engine core, with what it was told in order."""

    def __init__(self, *flights: Flight) -> None:
        self._flights = {flight.request.id: flight for flight in flights}
        self.clock, self.told = SimpleNamespace(now=lambda: 7.0), list[tuple[str, list[str]]]()
        self.deliveries = None

    def flight(self, id: str) -> Flight | None:
        return self._flights.get(id)

    def __getattr__(self, name: str) -> Any:
        return lambda ids: self.told.append((name, ids))


class Connected:
    """The edge as the core sees it, connected to an inbox, with the chunks that came there."""

    def __init__(self, folder: Path, *flights: Flight) -> None:
        self.core, self.got = Core(*flights), list[Chunk]()
        self.inbox: Inbox[list[Release]] = Inbox(list[Release], folder / "here", "edge", Host("here"))
        self.inbox.start(self._take, self._fail)
        self.edge = OwnEdge(folder / "wire", self.core, None)  # type: ignore[arg-type]  # what an edge asks of it
        self.tell(INBOX, TokenInbox(self.inbox.address))
        assert self.edge.inbox == self.inbox.address

    def tell(self, method: str, message: msgspec.Struct) -> None:
        assert self.edge.answer(0, method, [msgspec.msgpack.encode(message)]) is None

    async def gets(self, count: int) -> list[tuple[str, int, list[int]]]:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.got) < count:
                await asyncio.sleep(0.001)
        return [(chunk.request_id, chunk.first, chunk.tokens) for chunk in self.got]

    def _take(self, releases: list[Release]) -> None:
        self.got += [chunk for release in releases for chunk in release.chunks]

    def _fail(self, dropped: DroppedMessages) -> None:
        pytest.fail(dropped.why)


def flight(id: str, *tokens: int) -> Flight:
    return Flight(None, Request(id, 0.0, 1, 9), 0, tokens=list(tokens))


def test_tokens_that_were_lost_are_sent_again_also_of_who_has_ended(tmp_path: Path) -> None:
    async def run() -> None:
        ended = flight("ended", 1, 2, 3)
        there = Connected(tmp_path, flight("flies", 4, 5, 6), flight("quiet"))
        there.edge.deliver(Release(0, 1.0, []), [(ended, Chunk("ended", 2, [3], 0))])
        there.tell(MISSING, MissingTokens([("ended", 1), ("flies", 2), ("quiet", 0), ("unheard of", 5)]))
        assert await there.gets(3) == [("ended", 2, [3]), ("ended", 1, [2, 3]), ("flies", 2, [6])]
        there.edge.part()
        assert there.edge.inbox is None, "who comes in its place has another"
        there.tell(MISSING, MissingTokens([("flies", 0)]))
        there.inbox.close()

    asyncio.run(run())


def test_who_stops_is_dropped_at_once_and_ends_when_all_of_it_is_counted(tmp_path: Path) -> None:
    async def run() -> None:
        there = Connected(tmp_path)
        there.edge._server_of |= dict.fromkeys(("a", "b", "c"), None)  # type: ignore[arg-type]
        there.tell(STOP, StoppedRequests(["a", "unknown"]))
        there.tell(STOP, StoppedRequests(["b"], failed=True))
        there.edge.end(["c"])
        dropped = [("drop", [id]) for id in "abc"]
        assert there.core.told == dropped
        await asyncio.sleep(SETTLE_S / 2)
        assert there.core.told == dropped
        async with asyncio.timeout(PATIENCE_S):
            while len(there.core.told) < 6:
                await asyncio.sleep(SETTLE_S / 4)
        assert there.core.told[3:] == [("stop", ["a"]), ("give_up", ["b"]), ("cancel", ["c"])]
        there.inbox.close()

    asyncio.run(run())

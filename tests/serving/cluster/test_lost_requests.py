"""Is whoever waits for tokens that nobody would send found, whatever they wait for?"""

import asyncio
import threading
from pathlib import Path

import pytest

from serving.clock import ClockOrigin, WallClock
from serving.cluster.actor_proxies import ReleaseSink
from serving.cluster.endpoints.device import DeviceService
from serving.cluster.lost_requests import LostRequests
from serving.cluster.node import Node, State
from serving.cluster.streams import sockets
from serving.cluster.streams.rpc import RpcServer
from serving.cluster.streams.sockets import Host
from serving.cluster.streams.stream import Inbox
from serving.device.token_buffer import TokenBuffer
from serving.flight import Flight, take, unseen
from serving.types import Chunk, Release, Request


class Device:
    """A device's service and its releases, behind the calls that a look makes, and the edge's inbox for them."""

    def __init__(self, folder: Path) -> None:
        self.inbox: Inbox[list[Release]] = Inbox(list[Release], folder.parent / "edge", "edge", Host("here"))
        self.tokens = TokenBuffer()
        self.sink = ReleaseSink(self.inbox.address, WallClock(*ClockOrigin.now(1.0)))
        service = DeviceService(0, self.sink)
        service.connect(None, self.tokens, lambda engine, spec: None)  # type: ignore[arg-type]  # nobody makes steps
        calls = [service.tell_unknown, service.awaited, service.close, self.abort]
        server = RpcServer(calls, folder, "device", False)
        self.address = server.address
        threading.Thread(target=server.run, args=[lambda dropped: None], daemon=True).start()

    def abort(self, request_ids: list[str]) -> None: ...

    def release(self, chunk: Chunk) -> None:
        """Release a chunk, as a step does."""
        self.sink(Release(0, 1.0, [chunk]))
        self.sink.flush_all()


class Looks:
    """Looks at requests `a` and `b` of a device, and what came of them; releases are taken in once `edge` is set."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.node = Node(0, None, None, None, None, None, State.SERVING)  # type: ignore[arg-type]  # no actors
        self.node.calls.connect(device.address, device.address)
        self.flights = {id: Flight(None, Request(id, 0.0, 8, 40), device=0, sent_to=(0, 0), opened=True) for id in "ab"}
        self.reminded, self.sent, self.told = list[tuple[str, int]](), list[str](), list[str]()
        self._lost = LostRequests(
            self.flights,
            {0: self.node},
            lambda flight, position: self.reminded.append((flight.request.id, position)),
            lambda node, flights: self.sent.extend(flight.request.id for flight in flights),
        )

    def receive(self) -> None:
        """Take the device's releases in from now on."""
        self._device.inbox.start(self._take, lambda dropped: pytest.fail(dropped.why))

    def _take(self, releases: list[Release]) -> None:
        for release in releases:
            take(0, unseen(self.flights, release.chunks), release.at_s)
            self.told += release.unknown
            self._lost.take_unknown(self.node, release.unknown)

    async def look(self) -> None:
        await self._lost.look()

    async def hear(self, unknown: list[str]) -> None:
        """Wait until the device has told of unknown requests."""
        async with asyncio.timeout(20.0):
            while self.told != unknown:
                await asyncio.sleep(0.01)

    def close(self) -> None:
        self.node.calls.close()
        self._device.inbox.close()


@pytest.fixture
def device(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    return Device(tmp_path_factory.mktemp("r").absolute() / "run")


def test_the_source_is_reminded_of_tokens_that_have_not_come_between_two_looks(device: Device) -> None:
    async def main() -> None:
        looks = Looks(device)
        for id in "ab":
            device.tokens.open(id)
        device.tokens.take({"a": 3})
        await looks.look()
        assert looks.reminded == []
        await looks.look()
        assert (looks.reminded, looks.sent) == ([("a", 0)], [])
        # Two tokens come, and one is still owed.
        device.tokens.push([Chunk("a", place, [place]) for place in range(2)])
        looks.flights["a"].take([0, 1], 1.0)
        await looks.look()
        assert looks.reminded == [("a", 0)]
        await looks.look()
        assert (looks.reminded, looks.sent) == ([("a", 0), ("a", 2)], [])
        looks.close()

    asyncio.run(main())


def test_the_source_is_reminded_of_what_the_device_lacks_wherever_the_client_is(device: Device) -> None:
    """A device that was mended begins at the token that its client had then, and late releases may bring more."""

    async def main() -> None:
        looks = Looks(device)
        device.tokens.open("a", 5)
        device.tokens.take({"a": 3})
        looks.flights["a"].take([0] * 6, 1.0)
        await looks.look()
        await looks.look()
        assert looks.reminded == [("a", 5)]
        looks.close()

    asyncio.run(main())


def test_a_request_that_its_device_does_not_know_is_sent_again_though_others_are_waited_for(device: Device) -> None:
    async def main() -> None:
        looks = Looks(device)
        looks.receive()
        device.tokens.open("b")
        device.tokens.take({"b": 1})
        await looks.look()
        await looks.look()
        await looks.hear(["a"])
        assert (looks.reminded, looks.sent) == ([("b", 0)], ["a"])
        looks.close()

    asyncio.run(main())


def test_a_request_whose_tokens_are_still_on_their_way_is_not_lost(device: Device) -> None:
    """An edge that is behind looks twice at a request that its device has done with."""

    async def main() -> None:
        looks = Looks(device)
        device.tokens.open("b")
        device.release(Chunk("a", 0, [1, 2, 3]))
        await looks.look()
        await looks.look()
        await looks.look()
        looks.receive()
        await looks.hear(["a", "a"])
        assert looks.flights["a"].tokens == [1, 2, 3] and looks.sent == []
        # Those that follow never come.
        await looks.look()
        await looks.look()
        await looks.hear(["a", "a", "a"])
        assert looks.sent == ["a"]
        looks.close()

    asyncio.run(main())


def test_what_a_device_said_before_a_request_was_sent_again_says_nothing_of_it(device: Device) -> None:
    async def main() -> None:
        looks = Looks(device)
        device.tokens.open("b")
        for _ in range(3):
            await looks.look()
        looks.receive()
        await looks.hear(["a", "a"])
        assert looks.sent == ["a"]
        looks.close()

    asyncio.run(main())


def test_a_device_no_longer_waits_for_a_request_that_has_ended(device: Device) -> None:
    async def main() -> None:
        looks = Looks(device)
        for id in "ab":
            device.tokens.open(id)
        device.tokens.take({"a": 70, "b": 1})
        await looks.look()
        del looks.flights["a"]
        await looks.look()
        async with asyncio.timeout(20.0):
            while "a" in device.tokens.awaited():
                await looks.look()
        assert list(device.tokens.awaited()) == ["b"]
        looks.close()

    asyncio.run(main())


def test_a_device_is_asked_only_where_somebody_waits_and_while_it_is_there(device: Device) -> None:
    async def main() -> None:
        looks = Looks(device)
        device.tokens.open("stray")
        device.tokens.take({"stray": 1})
        await looks.look()
        looks.node.lose()
        await looks.look()
        looks.flights.clear()
        await looks.look()
        assert list(device.tokens.awaited()) == ["stray"] and looks.sent == looks.reminded == []

    asyncio.run(main())

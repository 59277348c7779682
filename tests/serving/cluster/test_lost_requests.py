"""Is whoever waits for tokens that nobody would send found, whatever they wait for?"""

import asyncio
import threading
from pathlib import Path

import pytest

from serving.cluster.lost_requests import LostRequests
from serving.cluster.node import Node, State
from serving.cluster.streams import sockets
from serving.cluster.streams.rpc import RpcServer
from serving.device.token_buffer import TokenBuffer
from serving.flight import Flight
from serving.types import Chunk, Request


class Device:
    """A device's buffers, behind the calls that a look makes."""

    def __init__(self, folder: Path) -> None:
        self.tokens = TokenBuffer()
        server = RpcServer([self.unknown, self.awaited, self.close, self.abort], folder, "device", False)
        self.address = server.address
        threading.Thread(target=server.run, args=[lambda dropped: None], daemon=True).start()

    def unknown(self, request_ids: list[str]) -> list[str]:
        return self.tokens.unknown(request_ids)

    def awaited(self) -> list[str]:
        return list(self.tokens.awaited())

    def close(self, request_ids: list[str]) -> None:
        for id in request_ids:
            self.tokens.close(id)

    def abort(self, request_ids: list[str]) -> None: ...


class Looks:
    """Looks at requests `a` and `b` of a device, and what came of them."""

    def __init__(self, device: Device) -> None:
        self.node = Node(0, None, None, None, None, None, State.SERVING)  # type: ignore[arg-type]  # no actors
        self.node.calls.connect(device.address, device.address)
        self.flights = {id: Flight(None, Request(id, 0.0, 8, 40), device=0, sent_to=(0, 0), opened=True) for id in "ab"}
        self.reminded, self.sent = list[str](), list[str]()
        self._lost = LostRequests(
            self.flights,
            {0: self.node},
            lambda flight: self.reminded.append(flight.request.id),
            lambda node, flights: self.sent.extend(flight.request.id for flight in flights),
        )

    async def look(self) -> None:
        await self._lost.look()


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
        assert (looks.reminded, looks.sent) == (["a"], [])
        # Two tokens come, and one is still owed.
        device.tokens.push([Chunk("a", place, [place]) for place in range(2)])
        looks.flights["a"].take([0, 1], 1.0)
        await looks.look()
        assert looks.reminded == ["a"]
        await looks.look()
        assert (looks.reminded, looks.sent) == (["a", "a"], [])
        looks.node.calls.close()

    asyncio.run(main())


def test_a_request_that_its_device_does_not_know_is_sent_again_though_others_are_waited_for(device: Device) -> None:
    async def main() -> None:
        looks = Looks(device)
        device.tokens.open("b")
        device.tokens.take({"b": 1})
        await looks.look()
        await looks.look()
        assert (looks.reminded, looks.sent) == (["b"], ["a"])
        looks.node.calls.close()

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
            while "a" in device.awaited():
                await looks.look()
        assert device.awaited() == ["b"]
        looks.node.calls.close()

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
        assert device.awaited() == ["stray"] and looks.sent == looks.reminded == []

    asyncio.run(main())

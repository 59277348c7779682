"""Does a request go on though a call of its device or scheduler got lost, or the answer to it?

Device and scheduler are the services of their actors on threads here, which answer on real sockets.
"""

import asyncio
import math
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from serving.clock import ClockOrigin, VirtualClock, WallClock
from serving.cluster import device_calls
from serving.cluster.actor_proxies import ReleaseSink
from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.endpoints.device import DeviceService
from serving.cluster.endpoints.scheduler import SchedulerService
from serving.cluster.lost_requests import LostRequests
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.recovery import Recovery
from serving.cluster.sources import manager
from serving.cluster.sources.manager import SourceManager
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.streams import sockets
from serving.cluster.streams.async_rpc import AsyncRpcClient
from serving.cluster.streams.rpc import ONE_WAY, RpcServer
from serving.cluster.streams.sockets import Address, Host
from serving.cluster.streams.stream import Inbox
from serving.device.token_buffer import TokenBuffer
from serving.flight import Flight
from serving.scheduler.config import Limits, SchedulerRules
from serving.types import Chunk, Done, Release, Request
from tests.serving.device.test_engine import Bench

LIMITS = Limits(4, 256, 4096)


def serve(folder: Path, name: str, calls: list[Callable[..., Any]]) -> Address:
    server = RpcServer(calls, folder, name, False)
    threading.Thread(target=server.run, args=[lambda dropped: None], daemon=True).start()
    return server.address


class Served:
    """A device and its scheduler, with the edge's recovery of it, and its looks at requests that get no tokens."""

    def __init__(self, folder: Path) -> None:
        self.inbox: Inbox[list[Release]] = Inbox(list[Release], folder.parent / "edge", "edge", Host("here"))
        self.tokens, clock = TokenBuffer(), WallClock(*ClockOrigin.now(1.0))
        self.device = service = DeviceService(0, ReleaseSink(self.inbox.address, clock))
        service.connect(None, self.tokens, lambda engine, spec: None)  # type: ignore[arg-type]  # nobody makes steps
        calls: list[Callable[..., Any]] = [service.open, service.close, service.tell_unknown, service.awaited]
        address = serve(folder, "device", [*calls, service.unowed, service.stall, service.poke])
        self.scheduler = SchedulerService(clock)
        self.scheduler.reset(address, LIMITS, SchedulerRules())
        plans: list[Callable[..., Any]] = [self.scheduler.submit, self.scheduler.abort, self.scheduler.unknown]
        self.addresses = address, serve(folder, "scheduler", plans)

    def connect(self) -> None:
        """Connect the edge, on the running loop."""
        self.node = Node(0, None, None, None, None, None, State.SERVING)  # type: ignore[arg-type]  # no actors
        self.node.calls.connect(*self.addresses)
        self.flights = {id: Flight(None, Request(id, 0.0, 8, 2), device=0) for id in "abc"}
        live = LiveFlights(self.flights, EdgeObserver(), lambda flight, why: None)
        sources: Any = SimpleNamespace(resume=lambda flight, position: None)
        buffers = DeviceBuffers({0: self.node})
        self.recovery = Recovery(None, None, live, sources, buffers, lambda devices: None)  # type: ignore[arg-type]
        self.again = list[str]()
        self._lost = LostRequests(self.flights, {0: self.node}, lambda *reminded: None, self._send_again)

    def _send_again(self, node: Node, flights: list[Flight]) -> None:
        self.again += [flight.request.id for flight in flights]
        self.recovery.send_again(node, flights)

    async def look(self) -> None:
        await self._lost.look()

    def close(self) -> None:
        self.node.calls.close()
        self.inbox.close()


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    monkeypatch.setattr(device_calls, "OPEN_S", 0.1)
    return Served(tmp_path_factory.mktemp("r").absolute() / "run")


Lose = Callable[[str, str], None]


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """Have the next call of a method get lost, or the answer to it."""
    lost, send = dict[str, str](), AsyncRpcClient._send

    def lossy(self: AsyncRpcClient, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        what = lost.pop(method, "")
        if what != "call":
            send(self, ONE_WAY if what == "answer" else number, method, arguments)

    monkeypatch.setattr(AsyncRpcClient, "_send", lossy)
    return lost.__setitem__


async def until(reached: Callable[[], object]) -> None:
    async with asyncio.timeout(20.0):
        while not reached():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("what", ["call", "answer"])
def test_a_device_that_was_not_heard_to_expect_a_request_is_told_again(served: Served, lose: Lose, what: str) -> None:
    async def main() -> None:
        served.connect()
        lose("open", what)
        async with asyncio.timeout(20.0):
            await served.recovery.send(served.node, served.flights["a"])
        assert served.flights["a"].opened and served.tokens.unknown(["a", "b"]) == ["b"]
        served.close()

    asyncio.run(main())


def test_a_device_that_is_told_again_keeps_nothing_of_a_request_that_goes_on_elsewhere_by_then(
    served: Served, lose: Lose
) -> None:
    async def main() -> None:
        served.connect()
        lose("open", "answer")
        flight = served.flights["a"]
        sending = asyncio.create_task(served.recovery.send(served.node, flight))
        await until(lambda: not served.tokens.unknown(["a"]))
        served.node.calls.drop(["a"])
        flight.move(1)
        await sending
        # What it is told comes to it in order: once this is answered it has heard of all.
        assert await served.node.calls.awaited() == {} and not flight.opened
        assert served.tokens.unknown(["a"]) == ["a"] and served.scheduler.unknown(["a"]) == ["a"]
        served.close()

    asyncio.run(main())


def test_a_request_that_its_scheduler_was_never_told_of_is_sent_again_and_no_other(served: Served, lose: Lose) -> None:
    async def main() -> None:
        served.connect()
        for id in "abc":
            await served.recovery.send(served.node, served.flights[id])
            lose("submit", "call" if id == "a" else "")  # That of `b`.
        # The scheduler has done with `c`, of which the source has not made all.
        await until(lambda: served.scheduler.unknown(["a", "c"]) == [])
        served.scheduler.abort(["c"])
        served.tokens.take({"c": 2})
        for id in "ab":
            served.device.push(0, [Chunk(id, 0, [7])])
        await served.look()
        assert served.again == []
        await served.look()
        assert served.again == ["b"]
        await until(lambda: served.scheduler.unknown(["b"]) == [])
        assert served.scheduler.plan(0.0, 9.0, 0.0, Done(0, [], [])).ids == ["a", "b"]
        for _ in range(3):
            await served.look()
        assert served.again == ["b"]
        served.close()

    asyncio.run(main())


def test_a_device_that_was_not_told_of_a_stalls_end_is_told_at_the_next_look(served: Served, lose: Lose) -> None:
    async def main() -> None:
        served.connect()
        driver = Bench(VirtualClock(), []).driver
        served.device.connect(driver, served.tokens, lambda engine, spec: None)
        served.node.stalled_until_s = math.inf
        served.node.tell_stall()
        await until(lambda: driver.engine.stalled_until_s == math.inf)
        lose("stall", "call")
        served.node.stalled_until_s = 0.0
        served.node.tell_stall()
        await served.look()
        await until(lambda: driver.engine.stalled_until_s == 0.0)
        served.close()

    asyncio.run(main())


def test_a_source_whose_answer_got_lost_is_asked_again_what_a_step_costs(
    served: Served, lose: Lose, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def cost() -> tuple[float, float]:
        return 0.25, 0.5

    async def main() -> None:
        monkeypatch.setattr(manager, "COST_S", 0.01)
        monkeypatch.setattr(manager, "ASK_S", 0.1)
        served.connect()
        live = LiveFlights({}, EdgeObserver(), lambda flight, why: None)
        actors, siblings = SourceActors(lambda index: None, 1, 0), SimpleNamespace()
        source = SourceManager(0, actors, live, DeviceBuffers({}), siblings)  # type: ignore[arg-type]  # nobody else
        source._calls.connect(serve(served.addresses[0].folder, "source", [cost]))
        source.link.up = True
        source._in_source.add("a")
        lose("cost", "answer")
        watching = asyncio.create_task(source._look_in())
        await until(lambda: source.cost == (0.25, 0.5))
        watching.cancel()
        source.stop()
        served.close()

    asyncio.run(main())

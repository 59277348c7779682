"""Does a token source get all that it needs to know of a request, whichever message to it was lost?"""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.v1.engine import EngineCoreRequest

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.sources import manager
from serving.cluster.sources.manager import SourceManager
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.streams import sockets
from serving.cluster.streams.rpc import RpcServer
from serving.flight import Flight
from serving.types import Request

PATIENCE_S = 20.0
# The first calls come before anybody is there.
nobody: Any = None


class Source:
    """Keeps what it is told of requests, but for the calls that get `lost`."""

    def __init__(self, folder: Path) -> None:
        self.lost, self.told, self.kept = set[str](), list[tuple[Any, ...]](), list[list[str]]()
        calls = [self.connect, self.add, self.resend, self.drop, self.keep, self.cost]
        server = RpcServer(calls, folder, "source", False)
        self.address = server.address
        threading.Thread(target=server.run, args=[lambda dropped: None], daemon=True).start()

    def connect(self, index: int, devices: dict[int, Any]) -> None:
        self._note("connect", index, list(devices))

    def add(self, request_id: str, request: list[bytes], device: int, known: list[int]) -> None:
        self._note("add", request_id, device, known)

    def resend(self, request_id: str, position: int, device: int) -> None:
        self._note("resend", request_id, position, device)

    def drop(self, request_ids: list[str]) -> None:
        self._note("drop", request_ids)

    def keep(self, request_ids: list[str]) -> None:
        self.kept.append(sorted(request_ids))

    def cost(self) -> tuple[float, float]:
        return 0.0, 0.0

    def _note(self, name: str, *arguments: Any) -> None:
        if name not in self.lost:
            self.told.append((name, *arguments))

    async def has(self, *told: tuple[Any, ...]) -> None:
        """Wait until it was told this and nothing else."""
        async with asyncio.timeout(PATIENCE_S):
            while self.told != list(told):
                await asyncio.sleep(0.01)


@pytest.fixture
def source(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    return Source(tmp_path_factory.mktemp("r").absolute() / "run")


def flight(id: str) -> Flight:
    params = SamplingParams(max_tokens=40)
    asked = EngineCoreRequest(id, [1, 2], None, params, None, 0.0, None, None, None)
    return Flight(asked, Request(id, 0.0, 2, 40), device=3, source=0, opened=True)


def managed(source: Source, *flights: Flight) -> SourceManager:
    """The edge's side of it, connected as it is when it comes up."""
    live = LiveFlights({each.request.id: each for each in flights}, EdgeObserver(), lambda flight, why: None)
    buffers = DeviceBuffers({})
    buffers.addresses[3] = source.address
    made = SourceManager(0, SourceActors(lambda index: None, 1, 0), live, buffers, nobody)
    made._calls.connect(source.address)
    return made


def test_a_reminder_tells_it_anew_of_the_device_the_request_and_its_place_there(source: Source) -> None:
    async def main() -> None:
        one = flight("a")
        made = managed(source, one)
        source.lost = {"connect", "add", "resend"}
        made.tell_addresses()
        made.resume(one, 0)
        one.take([7, 8, 9], 1.0)
        await made._calls.cost()
        source.lost.clear()
        made.remind(one, 2)
        await source.has(("connect", 0, [3]), ("add", "a", 3, [7, 8, 9]), ("resend", "a", 2, 3))
        made.stop()

    asyncio.run(main())


def test_it_is_not_told_of_what_must_wait_or_while_it_is_down(source: Source) -> None:
    async def main() -> None:
        one, other = flight("a"), flight("b")
        made = managed(source, one, other)
        made.resume(one, 0)
        # One that a source may have died of waits until it is tried alone.
        made.remind(other, 0)
        made.link.lose()
        made.remind(one, 0)
        await made._calls.cost()
        await source.has(("add", "a", 3, []))
        made.stop()

    asyncio.run(main())


def test_it_is_told_which_requests_are_there_though_a_drop_was_lost(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "COST_S", 0.02)

    async def main() -> None:
        one, other = flight("a"), flight("b")
        made = managed(source, one, other)
        looking = asyncio.create_task(made._look_in())
        for each in (one, other):
            made.resume(each, 0)
        source.lost = {"drop"}
        async with asyncio.timeout(PATIENCE_S):
            for dropped, left in ((), ["a", "b"]), (("a",), ["b"]), (("b",), []):
                made.drop(dropped)
                while not source.kept or source.kept[-1] != left:
                    await asyncio.sleep(0.01)
        looking.cancel()
        made.stop()

    asyncio.run(main())

"""Does a request go on if its last tokens from before a death reach the edge while its device is being mended?"""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.lost_requests import LostRequests
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.recovery import Recovery
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.sources.token_sources import TokenSources
from serving.cluster.streams import sockets
from serving.cluster.streams.rpc import RpcServer
from serving.cluster.streams.sockets import Address
from serving.device.token_buffer import TokenBuffer
from serving.flight import Flight
from serving.policies.router import Router
from serving.policies.routing import parse_router
from serving.recordings.answers import STOP, Answer
from serving.types import Chunk, Request

TOKENS = 40
PATIENCE_S = 20.0


class Device:
    """A device's buffers, behind the calls that it takes; a release is under way as a buffer is opened."""

    def __init__(self, folder: Path, flight: Flight, loop: asyncio.AbstractEventLoop) -> None:
        self.tokens, self._flight, self._loop = TokenBuffer(), flight, loop
        self.take_unknown: Callable[[list[str]], object] = lambda unknown: None
        calls = [self.open, self.push, self.submit, self.close, self.abort, self.tell_unknown, self.awaited]
        server = RpcServer(calls, folder, "device", False)
        self.address = server.address
        threading.Thread(target=server.run, args=[lambda dropped: None], daemon=True).start()

    def open(self, request_id: str, position: int, inbox: Address | None) -> None:
        self.tokens.open(request_id, position)
        # Told of before the answer to this call, as the edge's loop has it.
        late = asyncio.run_coroutine_threadsafe(self._release(), self._loop)
        late.result(PATIENCE_S)

    async def _release(self) -> None:
        self._flight.take([len(self._flight.tokens)], 1.0)

    def push(self, source: int, chunks: list[Chunk]) -> None:
        self.tokens.push(chunks)

    def submit(self, request: Request) -> None: ...

    def close(self, request_ids: list[str]) -> None:
        for id in request_ids:
            self.tokens.close(id)

    def tell_unknown(self, request_ids: list[str]) -> None:
        unknown = self.tokens.unknown(request_ids)
        asyncio.run_coroutine_threadsafe(self._tell(unknown), self._loop).result(PATIENCE_S)

    async def _tell(self, unknown: list[str]) -> None:
        self.take_unknown(unknown)

    def awaited(self) -> dict[str, int]:
        return self.tokens.awaited()

    def abort(self, request_ids: list[str]) -> None: ...


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    return tmp_path_factory.mktemp("r").absolute() / "run"


async def mended(folder: Path, lost: int = 0) -> Device:
    """Send a request that has had five tokens to a device that was mended; the sixth arrives meanwhile. Then `lost`
    tokens that the device releases don't arrive."""
    request = Request("a", 0.0, 8, TOKENS)
    recorded = Answer(request, (list(range(TOKENS)), None), [range(TOKENS)], (STOP, None))
    flight = Flight(None, request, device=0, tokens=[0, 1, 2, 3, 4], recorded=recorded)
    device = Device(folder, flight, asyncio.get_running_loop())
    node = Node(0, None, None, None, None, None, State.SERVING)  # type: ignore[arg-type]  # no actors stand behind it
    node.calls.connect(device.address, device.address)
    buffers = DeviceBuffers({0: node})
    buffers.addresses[0] = device.address
    live = LiveFlights({"a": flight}, EdgeObserver(), lambda flight, why: None)
    sources = TokenSources(SourceActors(lambda index: None, 0, 0), live, buffers)
    router = Router(parse_router("least-loaded").policy())
    recovery = Recovery(None, router, live, sources, buffers, lambda devices: None)  # type: ignore[arg-type]
    await recovery.send(node, flight)
    assert len(flight.tokens) == 6
    await there(device)
    if lost:
        device.tokens.take({"a": lost})
        if lost < TOKENS:
            recovery.send_again(node, [flight])
            recovery.send_again(node, [flight])  # It has been told of it.
        else:
            looks = LostRequests({"a": flight}, {0: node}, sources.remind, recovery.send_again)
            device.take_unknown = partial(looks.take_unknown, node)
            await looks.look()
            assert len(flight.tokens) == 6
            await looks.look()
        async with asyncio.timeout(PATIENCE_S):
            while len(flight.tokens) == 6:
                await asyncio.sleep(0.01)
        await there(device)
        assert len(flight.tokens) == 7
    node.calls.close()
    sources.stop()
    return device


async def there(device: Device) -> None:
    """Wait until the device has tokens."""
    async with asyncio.timeout(PATIENCE_S):
        while not device.tokens.coming(["a"], most=TOKENS)[0]:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("lost", [4, TOKENS])
def test_tokens_that_were_lost_on_their_way_are_sent_again(folder: Path, lost: int) -> None:
    """Some of them, or all to the last, after which no more come that could show it."""
    device = asyncio.run(mended(folder, lost))
    (ready,) = device.tokens.coming(["a"], most=TOKENS)
    assert [chunk.first for chunk in ready] == list(range(6, TOKENS))


def test_a_release_that_arrives_while_a_buffer_is_opened_leaves_no_gap(folder: Path) -> None:
    device = asyncio.run(mended(folder))
    (ready,) = device.tokens.coming(["a"], most=TOKENS)
    assert [chunk.first for chunk in ready] == list(range(5, TOKENS))

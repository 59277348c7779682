"""Does an edge in a process of its own get on with the engine core where a message between them is lost?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreOutputs, EngineCoreRequest, UtilityOutput
from vllm.v1.serial_utils import UtilityResult

from serving.admission_request import AdmissionRequest
from serving.call import Call, current_call, stamp
from serving.clock import WallClock
from serving.cluster.streams import sockets
from serving.cluster.streams.sockets import Host
from serving.cluster.streams.stream import Inbox
from serving.edge import remote_core
from serving.edge.arrivals import Arrivals
from serving.edge.front_ends import core_calls
from serving.edge.front_ends.edge_messages import ADMIT, ENDED, NO_ANSWER, STOP, AbortedRequests
from serving.edge.front_ends.edge_wires import CoreWire, EdgeWire
from serving.edge.front_ends.own_edge import OwnEdge
from serving.edge.refusals import GivenUp, Overflow
from serving.edge.remote_core import RemoteCore
from serving.refusals import Reason, Refusal
from serving.token_source.chunks import probe
from serving.types import DroppedMessages, Release
from tests.serving.edge.front_ends.test_front_end import READY

FULL = Refusal(Reason.QUEUE, "All 2 places of the queue are taken.", 6.0)
PATIENCE_S = 20.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all that is told again be told soon, and all be on one node."""
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    monkeypatch.setattr(core_calls, "AGAIN_S", 0.05)
    monkeypatch.setattr(remote_core, "PULSE_S", 0.05)


class Core:
    """What an edge asks of the engine core: it judges with `refusal`, and serves nobody until it ends."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self.refusal = refusal
        self.judged, self.ended_calls, self.served, self.cancelled = list[Call](), list[str](), set[str](), list[str]()
        self.flights = ()
        self.clock = SimpleNamespace(now=lambda: 7.0)

    def judge(self, call: Call, *asked: Any) -> Refusal | None:
        assert current_call() is call
        self.judged.append(call)
        return self.refusal

    def choose_text_for(self, call: Call, needs: Any) -> bool:
        call.recorded = True
        return True

    def ended(self, call: Call) -> None:
        self.ended_calls.append(call.status)

    async def add_request_async(self, request: EngineCoreRequest, sink: Any) -> None:
        self.served.add(request.request_id)

    def cancel(self, ids: list[str]) -> None:
        self.served -= set(ids)
        self.cancelled += ids

    def flight(self, id: str) -> Any:
        return SimpleNamespace(tokens=[], device=0) if id in self.served else None


class LosingWire(CoreWire):
    """A wire that loses the next message of each of some methods on its way to the core."""

    lost: set[str]

    def send(self, kind: Any, message: Any) -> None:
        """Send a message, or lose it."""
        if isinstance(message, tuple) and message[2] in self.lost:
            self.lost.remove(message[2])
        else:
            super().send(kind, message)


@contextlib.asynccontextmanager
async def joined(folder: Path, core: Any, lost: set[str]) -> AsyncIterator[RemoteCore]:
    """The core of an edge that has joined, of whose messages some are lost."""
    wire = LosingWire(folder / "wire")
    wire.lost = lost
    edge = OwnEdge(folder / "wire", core, READY)
    serving = asyncio.create_task(edge.run())
    await wire.ready()
    inbox: Inbox[list[Release]] = Inbox(list[Release], folder / "here", "edge", Host("here"))
    clock = WallClock(0.0)
    remote = RemoteCore(wire, inbox, clock, Arrivals(clock), 64)
    pulses = asyncio.create_task(remote.send_pulses())
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield remote
    finally:
        for task in (pulses, serving):
            task.cancel()
        await asyncio.gather(pulses, serving, return_exceptions=True)
        remote.shutdown()


async def holds(there: Callable[[], object]) -> None:
    while not there():
        await asyncio.sleep(0.01)


async def begin(core: RemoteCore, id: str) -> Call:
    """Begin a call, and have its request judged and sent."""
    call = stamp(core.clock)
    core.admit(id, AdmissionRequest(4, 16), SamplingParams(max_tokens=16), 0)
    await call.judged()
    request = probe(id, 4, 64)
    request.external_req_id = id
    await core.add_request_async(request)
    return call


def lose_answers(monkeypatch: pytest.MonkeyPatch, count: int) -> list[EngineCoreOutputs]:
    """Lose the first answers of the core; return what of them is lost by then."""
    lost, send = list[EngineCoreOutputs](), EdgeWire.send

    def lose(wire: EdgeWire, outputs: EngineCoreOutputs) -> None:
        if outputs.utility_output is not None and len(lost) < count:
            lost.append(outputs)
        else:
            send(wire, outputs)

    monkeypatch.setattr(EdgeWire, "send", lose)
    return lost


@pytest.mark.parametrize("refusal", [None, FULL])
@pytest.mark.parametrize("side", ["question", "answers"])
def test_an_admission_that_is_lost_is_asked_for_again_and_given_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str, refusal: Refusal | None
) -> None:
    async def run() -> None:
        core = Core(refusal)
        lost = lose_answers(monkeypatch, 2) if side == "answers" else []
        async with joined(tmp_path, core, {ADMIT} if side == "question" else set()) as remote:
            asked = asyncio.create_task(begin(remote, "a"))
            if refusal is None:
                call = await asked
                assert call.recorded
                await holds(lambda: core.served == {"a"})
            else:
                with pytest.raises(Overflow, match="All 2 places"):
                    await asked
            assert len(core.judged) == 1 and len(lost) == (2 if side == "answers" else 0)
            # Another request of the same kind is another admission.
            if refusal is None:
                await asyncio.create_task(begin(remote, "b"))
                assert len(core.judged) == 2

    asyncio.run(run())


def test_an_end_that_is_lost_is_noticed_and_ends_nobody_else(tmp_path: Path) -> None:
    async def run() -> None:
        core = Core()
        async with joined(tmp_path, core, {STOP, ENDED}) as remote:
            gone = await asyncio.create_task(begin(remote, "gone"))
            await asyncio.create_task(begin(remote, "stays"))
            remote.cancel(["gone"])
            remote.ended(gone)
            await holds(lambda: core.cancelled and core.ended_calls)
            await asyncio.sleep(0.2)
            assert core.cancelled == ["gone"] and core.ended_calls == [""] and core.served == {"stays"}

    asyncio.run(run())


def test_nobody_asks_for_a_call_that_has_ended_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        core = Core()
        lost = lose_answers(monkeypatch, 99)
        async with joined(tmp_path, core, set()) as remote:
            call = stamp(remote.clock)
            remote.admit("a", AdmissionRequest(4, 16), SamplingParams(max_tokens=16), 0)
            await holds(lambda: len(lost) == 2)
            remote.ended(call)
            with pytest.raises(GivenUp, match="lost"):
                await call.judged()
            asked = len(lost)
            await asyncio.sleep(0.2)
            assert len(lost) == asked and len(core.judged) == len(core.ended_calls) == 1
            assert not remote._core._waiting

    asyncio.run(run())


def test_an_edge_that_is_not_told_that_it_may_serve_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        lose_answers(monkeypatch, 1)
        edge = list[OwnEdge]()
        monkeypatch.setattr(OwnEdge, "meet", _noting(OwnEdge.meet, edge))
        async with joined(tmp_path, Core(), set()) as remote:
            edge[0].open()
            await remote.opened()

    asyncio.run(run())


def test_a_message_that_cannot_be_read_costs_no_other_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read has it, and the answer after it."""
    monkeypatch.setattr(core_calls, "AGAIN_S", 2 * PATIENCE_S)
    monkeypatch.setattr(OwnEdge, "meet", _noting(OwnEdge.meet, edges := list[OwnEdge]()))
    bad, dropped = msgspec.msgpack.encode(AbortedRequests([1])), list[tuple[str, DroppedMessages]]()  # type: ignore[list-item]

    class Passing(Core):
        devices = SimpleNamespace(observer=SimpleNamespace(on_dropped=lambda *said: dropped.append(said)))

        def judge(self, call: Call, *asked: Any) -> Refusal | None:
            for server in edges[0]._servers:
                server.send(EngineCoreOutputs(utility_output=UtilityOutput(NO_ANSWER, result=UtilityResult(bad))))
            return super().judge(call, *asked)

    async def run() -> None:
        async with joined(tmp_path, Passing(), set()) as remote:
            await asyncio.create_task(begin(remote, "a"))
            await holds(lambda: dropped)
            ((receiver, told),) = dropped
            assert receiver == "edge" and told.count == 1 and "Expected `str`" in told.why

    asyncio.run(run())


def _noting(meet: Any, edges: list[OwnEdge]) -> Any:
    async def noting(self: OwnEdge) -> Any:
        edges.append(self)
        return await meet(self)

    return noting

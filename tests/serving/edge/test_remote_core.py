"""Does the engine core hear of the end of each call of an edge in another process, and take none for another?"""

import asyncio
import time
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import pytest
from vllm.exceptions import VLLMClientError
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreOutputs, EngineCoreRequest, UtilityOutput
from vllm.v1.serial_utils import MsgpackEncoder, UtilityResult

from serving.admission_request import AdmissionRequest
from serving.call import Call, stamp
from serving.clock import WallClock
from serving.cluster.streams.sockets import Address
from serving.edge import remote_core
from serving.edge.arrivals import Arrivals
from serving.edge.async_llm import DeviceRanks
from serving.edge.front_ends.edge_messages import (
    ADMIT,
    DELAYS,
    ENDED,
    INBOX,
    MISSING,
    PLACES,
    STOP,
    AdmissionCall,
    BroughtCall,
    CallEnd,
    Judgement,
    MissingTokens,
    ReleaseDelays,
    TokenInbox,
    TurnedAway,
)
from serving.edge.front_ends.front_end import _fail
from serving.edge.front_ends.full_queue import FULL_S
from serving.edge.refusals import GivenUp, Overflow
from serving.edge.remote_core import QUIET_PULSES, RemoteCore
from serving.refusals import Reason, Refusal
from serving.token_source.chunks import probe
from serving.types import Chunk, Release

Told = TypeVar("Told")
FULL = Refusal(Reason.QUEUE, "All 2 places of the queue are taken.", 6.0)
CONTEXT = 64
TOO_LONG = Refusal(Reason.TOO_LONG, "The context has no room for that.", field="max_tokens")


class Wire:
    """Keeps what the core is told."""

    def __init__(self) -> None:
        self.said = list[Any]()

    def listen(self, take: Any, taken: Any) -> None:
        pass

    def send(self, kind: Any, message: Any) -> None:
        self.said.append(message)

    @property
    def ended(self) -> list[int]:
        """The calls of whose end it was told."""
        return [end.call for end in self.told(ENDED, CallEnd)]

    def told(self, method: str, kind: type[Told]) -> list[Told]:
        """The messages of a kind that it was sent."""
        calls = [said for said in self.said if isinstance(said, tuple) and said[2] == method]
        return [msgspec.msgpack.decode(arguments[0], type=kind) for _, _, _, arguments in calls]


class Refusing(RemoteCore):
    """Has every request refused."""

    async def _judge(self, call: Call, message: AdmissionCall) -> None:
        raise GivenUp("All places are taken.")


class Taking(RemoteCore):
    """Has every request admitted."""

    async def _judge(self, call: Call, message: AdmissionCall) -> None:
        pass


class Answering(Wire):
    """Has each request, and each question for places, answered with a refusal, or None."""

    def __init__(self) -> None:
        super().__init__()
        self.core: Any = None
        self.refusal: Refusal | None = FULL

    def send(self, kind: Any, message: Any) -> None:
        super().send(kind, message)
        if isinstance(message, tuple) and message[2] in (ADMIT, PLACES):
            number = message[1]
            result = UtilityResult(msgspec.msgpack.encode(Judgement(self.refusal, {}, False)))
            outputs = EngineCoreOutputs(utility_output=UtilityOutput(number, result=result))
            asyncio.get_running_loop().call_soon(self.core._take, MsgpackEncoder().encode(outputs))


def core_on(clock: WallClock, wire: Wire, kind: type[RemoteCore]) -> RemoteCore:
    inbox: Any = SimpleNamespace(address=Address("here", "/inbox"), start=lambda *takers: None)
    return kind(wire, inbox, clock, Arrivals(clock), CONTEXT)  # type: ignore[arg-type]


def test_a_request_that_is_refused_after_its_call_was_answered_leaves_no_call() -> None:
    """As one is that is made in the background."""

    async def play() -> None:
        clock, wire = WallClock(0.0), Wire()
        core = core_on(clock, wire, Refusing)
        call = stamp(clock)
        call.end(None)
        with pytest.raises(GivenUp):
            await core.add_request_async(probe("a", 4, 64))
        assert wire.ended == [1] and not call.number
        # Whichever call comes next, wherever it lies in memory, is another one.
        assert core.calls.number(Call(0.0)) > 1

    asyncio.run(play())


def test_a_request_that_fails_in_the_background_before_the_core_has_it_leaves_no_call() -> None:
    async def play() -> None:
        clock, wire = WallClock(0.0), Wire()
        core = core_on(clock, wire, Taking)
        call = stamp(clock)
        call.end(None)

        async def make() -> None:
            core.admit("a", AdmissionRequest(4, 16), SamplingParams(max_tokens=16), 0)
            await asyncio.sleep(0)
            raise ValueError("A schema that nobody can follow.")

        (failed,) = await asyncio.gather(asyncio.create_task(make()), return_exceptions=True)
        await asyncio.sleep(0)
        assert isinstance(failed, ValueError) and wire.ended == [1] and not call.number

    asyncio.run(play())


def test_a_request_may_name_a_device_of_any_index() -> None:
    async def play() -> None:
        core = core_on(WallClock(0.0), Wire(), RemoteCore)
        assert DeviceRanks(SimpleNamespace(), core.devices.nodes).data_parallel_size == 2**31 - 1

    asyncio.run(play())


def test_a_pulse_tells_where_tokens_go_and_asks_for_those_that_have_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_core, "PULSE_S", 0.0)

    async def play() -> None:
        wire = Wire()
        core = core_on(WallClock(0.0), wire, Taking)
        for id in ("a", "b"):
            await core.add_request_async(probe(id, 4, 64))
        core._receive([Release(0, 0.0, [Chunk("a", 0, [7]), Chunk("b", 1, [8])])])
        pulses = asyncio.create_task(core.send_pulses())
        while len(asked := wire.told(MISSING, MissingTokens)) < 2 * QUIET_PULSES:
            await asyncio.sleep(0)
        pulses.cancel()
        # Of one later tokens are here, and nothing has come of the other.
        both, one = [("b", 0), ("a", 1)], [("b", 0)]
        assert [message.positions for message in asked] == [*[one] * QUIET_PULSES, both, *[one] * (QUIET_PULSES - 1)]
        told = [message.address for message in wire.told(INBOX, TokenInbox)]
        assert len(told) > QUIET_PULSES and set(told) == {Address("here", "/inbox")}

    asyncio.run(play())


def test_a_request_that_fails_at_the_core_is_no_delivery_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_core, "DELAYS_S", 0.0)

    async def play() -> None:
        wire = Wire()
        core = core_on(WallClock(0.0), wire, Taking)
        server: Any = SimpleNamespace(send=lambda outputs: core._take(MsgpackEncoder().encode(outputs)))
        # Of what has gone out is told with what comes next.
        for id in ("a", "b"):
            await core.add_request_async(probe(id, 4, 64))
            _fail(server, id, "It has no room.")
            core.outputs.flush()
            (output,) = (await core.get_output_async()).outputs
            assert (output.request_id, output.stop_reason) == (id, "It has no room.")
        await asyncio.sleep(0.01)
        assert not core._order.expected and not wire.told(DELAYS, ReleaseDelays)

    asyncio.run(play())


@pytest.mark.parametrize("how", ["cancel", "give_up"])
def test_a_request_that_ends_while_it_waits_for_its_admission_is_not_sent(how: str) -> None:
    async def play() -> None:
        clock, wire = WallClock(0.0), Wire()
        core = core_on(clock, wire, RemoteCore)

        async def ask() -> None:
            stamp(clock)
            await core.add_request_async(probe("a", 4, 64))

        asking = asyncio.create_task(ask())
        while not wire.told(ADMIT, AdmissionCall):
            await asyncio.sleep(0)
        getattr(core, how)(["a"])
        async with asyncio.timeout(10):
            await asking
        # The judgement comes all the same.
        core._core.take(UtilityOutput(1, result=UtilityResult(msgspec.msgpack.encode(Judgement(None, {}, False)))))
        await asyncio.sleep(0.01)
        assert [said[2] for said in wire.said if isinstance(said, tuple)] == [INBOX, ADMIT, STOP]
        assert not any(isinstance(said, EngineCoreRequest) for said in wire.said)

    asyncio.run(play())


def test_a_request_is_judged_and_sent_for_no_more_tokens_than_its_context_has() -> None:
    """As each of several choices is, which vLLM sends for as many as its client has asked for."""

    async def play() -> None:
        wire = Answering()
        core = wire.core = core_on(WallClock(0.0), wire, RemoteCore)
        wire.refusal, request = None, probe("a", 2**31 - 1, CONTEXT)

        async def ask() -> None:
            stamp(core.clock)
            await core.add_request_async(request)

        await asyncio.create_task(ask())
        (judged,), left = wire.told(ADMIT, AdmissionCall), CONTEXT - len(request.prompt_token_ids)
        assert judged.asked.max_tokens == request.sampling_params.max_tokens == left
        assert wire.said[-1] is request

    asyncio.run(play())


@pytest.mark.parametrize(
    ("traced", "route", "status", "told"),
    [
        (True, "/v1/chat/completions", "404", True),
        (True, "/vllm.grpc.engine.VllmEngine/Generate", "INVALID_ARGUMENT", True),
        (True, "/v1/chat/completions", "200", False),
        (True, "/v1/models", "404", False),
        (False, "/v1/chat/completions", "404", False),
    ],
)
def test_a_call_that_the_edge_alone_has_refused_is_told_of_once_if_somebody_follows_those(
    traced: bool, route: str, status: str, told: bool
) -> None:
    async def play() -> None:
        clock, wire = WallClock(0.0), Wire()
        core = core_on(clock, wire, RemoteCore)
        core.calls.traced = traced
        call = stamp(clock, [(b"traceparent", b"x")], route)
        # That is why.
        call.body, call.status = {"topic": 2**70}, status
        core.ended(call)
        core.calls.end(call)
        brought = BroughtCall(1, route, call.arrival_s, [("traceparent", "x")], {})
        assert wire.told(ENDED, CallEnd) == ([CallEnd(1, status, brought)] if told else [])
        assert not call.number and not core.calls.numbers

    asyncio.run(play())


async def asks(core: RemoteCore, n: int = 1) -> None:
    """Have a call's request judged, of so many sequences."""
    call = stamp(core.clock)
    core.admit("a", AdmissionRequest(4, 16, n), SamplingParams(max_tokens=16), 0)
    await call.judged()


async def comes(core: RemoteCore, n: int = 1) -> tuple[Call, str]:
    """Have a call look for a place before its body is read; return it, with the sentence of its refusal or ""."""
    call = stamp(core.clock, [(b"x-foreserve-slo", b"chat")], "/v1/completions")
    try:
        core.check_places(n)
    except Overflow as refusal:
        return call, str(refusal)
    return call, ""


def test_who_comes_while_the_queue_is_full_is_refused_at_once_and_counted_by_the_core() -> None:
    async def play() -> None:
        wire = Answering()
        core = wire.core = core_on(WallClock(0.0, 2.0), wire, RemoteCore)
        assert (await asyncio.create_task(comes(core)))[1] == "", "nobody was refused yet"
        with pytest.raises(Overflow):
            await asyncio.create_task(asks(core))
        call, sentence = await asyncio.create_task(comes(core))
        assert sentence == f"{FULL.sentence} Try again in 3 s." and call.retry_after_s == 3.0
        assert isinstance(call.refusal, Overflow) and call.refusal.reason is Reason.QUEUE
        (told,) = wire.told(PLACES, TurnedAway)
        assert (told.call.route, told.call.headers, told.refusal) == (
            "/v1/completions",
            [("x-foreserve-slo", "chat")],
            FULL,
        )
        # Several sequences are judged by the core, and who was judged there has a place, or waits for an answer.
        assert (await asyncio.create_task(comes(core, 2)))[1] == ""
        judged = stamp(core.clock)
        judged.judging["a"] = asyncio.get_running_loop().create_future()
        core.check_places(1)
        # The next one is told so as well, until the core has said that there is a place.
        wire.refusal = None
        assert (await asyncio.create_task(comes(core)))[1] == sentence
        await asyncio.sleep(0.001)
        assert (await asyncio.create_task(comes(core)))[1] == "" and len(wire.told(PLACES, TurnedAway)) == 2
        assert not core._core._waiting

    asyncio.run(play())


@pytest.mark.parametrize(("refusal", "n"), [(TOO_LONG, 1), (FULL, 2)])
def test_a_refusal_that_says_nothing_of_one_place_keeps_nobody_out(refusal: Refusal, n: int) -> None:
    async def play() -> None:
        wire = Answering()
        core = wire.core = core_on(WallClock(0.0), wire, RemoteCore)
        wire.refusal = refusal
        with pytest.raises(VLLMClientError if refusal is TOO_LONG else Overflow):
            await asyncio.create_task(asks(core, n))
        assert (await asyncio.create_task(comes(core)))[1] == ""

    asyncio.run(play())


def test_a_full_queue_is_forgotten_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        wire = Answering()
        core = wire.core = core_on(WallClock(0.0), wire, RemoteCore)
        with pytest.raises(Overflow):
            await asyncio.create_task(asks(core))
        later_s = time.monotonic() + FULL_S
        monkeypatch.setattr(remote_core.time, "monotonic", lambda: later_s)
        assert (await asyncio.create_task(comes(core)))[1] == ""

    asyncio.run(play())

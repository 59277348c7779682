"""Does the engine core hear of the end of each call of an edge in another process, and take none for another?"""

import asyncio
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import pytest
from vllm.sampling_params import SamplingParams

from serving.admission_request import AdmissionRequest
from serving.call import Call, stamp
from serving.clock import WallClock
from serving.cluster.streams.sockets import Address
from serving.edge import remote_core
from serving.edge.arrivals import Arrivals
from serving.edge.async_llm import DeviceRanks
from serving.edge.front_ends.edge_messages import (
    ENDED,
    INBOX,
    MISSING,
    AdmissionCall,
    CallEnd,
    MissingTokens,
    TokenInbox,
)
from serving.edge.refusals import GivenUp
from serving.edge.remote_core import QUIET_PULSES, RemoteCore
from serving.token_source.chunks import probe
from serving.types import Chunk, Release

Told = TypeVar("Told")


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


def core_on(clock: WallClock, wire: Wire, kind: type[RemoteCore]) -> RemoteCore:
    inbox: Any = SimpleNamespace(address=Address("here", "/inbox"), start=lambda *takers: None)
    return kind(wire, inbox, clock, Arrivals(clock))  # type: ignore[arg-type]


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
        assert core._number(Call(0.0)) > 1

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

"""Does the engine core give an edge of its own what was lost on the way from a device, and count what that has got
before its requests end?"""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import msgspec
import pytest
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.engine import EngineCoreRequest, EngineCoreRequestType
from vllm.v1.serial_utils import MsgpackEncoder

from serving.call import current_call
from serving.cluster.streams import sockets
from serving.cluster.streams.sockets import Host
from serving.cluster.streams.stream import Inbox
from serving.edge.delivery.token_order import LastTokens
from serving.edge.front_ends import own_edge
from serving.edge.front_ends.edge_messages import (
    CALL,
    ENDED,
    INBOX,
    MISSING,
    NO_ANSWER,
    PLACES,
    STOP,
    WARM,
    BroughtCall,
    CallEnd,
    Judgement,
    MissingTokens,
    StoppedRequests,
    TokenInbox,
    TurnedAway,
)
from serving.edge.front_ends.own_edge import LOST, OwnEdge
from serving.edge.refusals import Overflow
from serving.edge.request_bounds import MOST_GRAMMAR_CHARS
from serving.flight import Flight
from serving.refusals import Reason, Refusal
from serving.types import FAILED, Chunk, DroppedMessages, Release, Request

PATIENCE_S = 10.0


@pytest.fixture(autouse=True)
def one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that all is on one node: no Ray is needed to tell."""
    monkeypatch.setattr(sockets, "this_node", lambda: "here")


class Core:
    """What an edge asks of the engine core, with what it was told in order."""

    def __init__(self, *flights: Flight) -> None:
        self._flights = {flight.request.id: flight for flight in flights}
        self.clock, self.told = SimpleNamespace(now=lambda: 7.0), list[tuple[Any, ...]]()
        self.deliveries = SimpleNamespace(catch_up=lambda *said: self.told.append(("catch_up", *said)))

    def flight(self, id: str) -> Flight | None:
        return self._flights.get(id)

    def __getattr__(self, name: str) -> Any:
        return lambda *said: self.told.append((name, *said))


class WaitingCore(Core):
    """One that notes which requests it takes on; a closed `gate` keeps them waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.flights, self.added = asyncio.Event(), list[Flight](), list[str]()

    async def add_request_async(self, request: EngineCoreRequest, sink: Any) -> None:
        await self.gate.wait()
        self.added.append(request.request_id)


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
        there.edge.deliver(Release(0, 1.0, []), [(ended, Chunk("ended", 2, [3], 0, "end"))])
        there.tell(MISSING, MissingTokens([("ended", 1), ("flies", 2), ("quiet", 0), ("ended", 3)]))
        given = [("ended", 2, [3]), ("ended", 1, [2, 3]), ("flies", 2, [6]), ("ended", 3, [])]
        assert await there.gets(4) == given
        assert [(chunk.finish, chunk.stop_reason) for chunk in there.got] == [(0, "end")] * 2 + [
            (None, None),
            (0, "end"),
        ]
        there.edge.part()
        assert there.edge.inbox is None, "who comes in its place has another"
        there.tell(MISSING, MissingTokens([("flies", 0)]))
        there.inbox.close()

    asyncio.run(run())


def test_tokens_that_nobody_has_any_more_end_their_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        there = Connected(tmp_path)
        for id, kept in (("kept", True), ("early", False), ("long", False)):
            monkeypatch.setattr(own_edge, "ENDED_S", 60.0 if id != "long" else 0.0)
            ended = flight(id, *range(9))
            if id == "long":
                monkeypatch.setattr(own_edge, "MOST_ENDED_TOKENS", 5)
            there.edge.deliver(Release(0, 1.0, []), [(ended, Chunk(id, 8, [8], 0))])
            if kept:
                there.tell(MISSING, MissingTokens([(id, 7)]))
                assert (await there.gets(2))[1] == (id, 7, [7, 8])
        there.tell(MISSING, MissingTokens([("early", 7), ("long", 7)]))
        await there.gets(6)
        assert [(chunk.request_id, chunk.finish, chunk.stop_reason) for chunk in there.got[-2:]] == [
            ("early", FAILED, LOST),
            ("long", FAILED, LOST),
        ]
        there.inbox.close()

    asyncio.run(run())


class CountedTokens(list[int]):
    """Tokens of a request that count how often they are counted."""

    counted = 0

    def __len__(self) -> int:
        CountedTokens.counted += 1
        return super().__len__()


def test_what_is_kept_of_who_has_ended_is_bounded_and_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_edge, "MOST_ENDED_TOKENS", 1000)
    edge = OwnEdge(tmp_path / "wire", Core(), None)  # type: ignore[arg-type]  # what an edge asks of it
    for number in range(300):
        ended = Flight(None, Request(str(number), 0.0, 1, 9), 0, tokens=CountedTokens(range(number % 9)))
        edge.deliver(Release(0, 1.0, []), [(ended, Chunk(str(number), 0, [], 0))])
    # As they come, and as they go.
    assert CountedTokens.counted <= 2 * 300
    kept = sum(len(tokens) for _, tokens, _ in edge._ended)
    assert 1000 - 8 < kept <= 1000 and kept == edge._ended_tokens


def test_one_that_waits_to_be_added_is_left_and_one_that_never_came_ends(tmp_path: Path) -> None:
    async def run() -> None:
        there = Connected(tmp_path)
        there.edge._adding["waits"] = asyncio.create_task(asyncio.sleep(PATIENCE_S))
        there.tell(MISSING, MissingTokens([("waits", 0), ("never came", 0)]))
        assert await there.gets(1) == [("never came", 0, [])]
        assert (there.got[0].finish, there.got[0].stop_reason) == (FAILED, LOST)
        there.edge._adding["waits"].cancel()
        there.inbox.close()

    asyncio.run(run())


def test_an_inbox_that_is_told_again_keeps_its_connection(tmp_path: Path) -> None:
    async def run() -> None:
        there = Connected(tmp_path)
        before = there.edge._tokens
        there.tell(INBOX, TokenInbox(there.inbox.address))
        assert there.edge._tokens is before
        there.edge.part()
        there.tell(INBOX, TokenInbox(there.inbox.address))
        assert there.edge.inbox == there.inbox.address and there.edge._tokens is not before
        there.inbox.close()

    asyncio.run(run())


def test_who_takes_the_place_of_an_edge_gets_none_of_its_answers(tmp_path: Path) -> None:
    sent = list[Any]()
    edge = OwnEdge(tmp_path / "wire", Core(), None)  # type: ignore[arg-type]  # what an edge asks of it
    assert edge.answer(3, WARM, [None]) is None
    edge.part()
    edge._servers = [SimpleNamespace(send=sent.append)]  # type: ignore[list-item]
    edge.open()
    assert sent == []
    edge.answer(4, WARM, [None])
    assert [outputs.utility_output.call_id for outputs in sent] == [4]


def test_a_request_whose_call_has_ended_is_served_without_it(tmp_path: Path) -> None:
    edge = OwnEdge(tmp_path / "wire", Core(), None)  # type: ignore[arg-type]  # what an edge asks of it
    request = SimpleNamespace(trace_headers={CALL: "7"})
    assert edge.context_of(request).run(current_call) is None  # type: ignore[arg-type]  # what is read of one
    assert request.trace_headers is None


def test_a_request_that_one_message_names_twice_is_ended_once(tmp_path: Path) -> None:
    edge = OwnEdge(tmp_path / "wire", Core(), None)  # type: ignore[arg-type]  # what an edge asks of it
    edge._server_of |= dict.fromkeys(("a", "b"), None)  # type: ignore[arg-type]
    assert edge.known(["a", "b", "a", "c"]) == ["a", "b"] and not edge._server_of


def test_what_the_edge_alone_has_heard_is_counted_before_its_request_ends(tmp_path: Path) -> None:
    async def run() -> None:
        there = Connected(tmp_path, flight("a", 1, 2, 3))
        there.edge._server_of |= dict.fromkeys(("a", "b", "c"), None)  # type: ignore[arg-type]
        there.tell(
            STOP, StoppedRequests(["a", "unknown"], "stop", [LastTokens("a", 3, [7, 8]), LastTokens("unknown", 0, [5])])
        )
        there.tell(STOP, StoppedRequests(["b"], "give_up"))
        there.tell(STOP, StoppedRequests(["c"], "cancel"))
        assert there.core.told == [
            ("catch_up", there.core.flight("a"), 3, [7, 8]),
            ("stop", ["a"]),
            ("give_up", ["b"]),
            ("cancel", ["c"]),
        ]
        there.inbox.close()

    asyncio.run(run())


def test_a_schema_that_its_edge_has_made_larger_is_taken(tmp_path: Path) -> None:
    """As it does for a small model, which is given schemas with their parts made into one."""

    async def run() -> None:
        core = WaitingCore()
        core.gate.set()
        edge = OwnEdge(tmp_path / "wire", core, SimpleNamespace(max_model_len=64))  # type: ignore[arg-type]
        server: Any = SimpleNamespace(send=lambda outputs: pytest.fail(f"It is refused: {outputs}"))
        grammar = StructuredOutputsParams(json={"enum": ["a" * (MOST_GRAMMAR_CHARS + 1)]})
        params = SamplingParams(max_tokens=9, structured_outputs=grammar)
        request = EngineCoreRequest("a", [1, 2], None, params, None, 0.0, None, None, None)
        edge._take(server, [EngineCoreRequestType.ADD.value, *MsgpackEncoder().encode(request)])
        await asyncio.sleep(0.05)
        assert core.added == ["a"]

    asyncio.run(run())


@pytest.mark.parametrize("how", ["stop", "give_up", "cancel"])
@pytest.mark.parametrize("turns", [0, 3])
def test_a_request_that_ends_before_it_is_in_flight_never_is(
    tmp_path: Path, turns: int, how: Literal["stop", "give_up", "cancel"]
) -> None:
    """Read together with its end, or waiting at the gate."""

    async def run() -> None:
        core, encoder = WaitingCore(), MsgpackEncoder()
        edge = OwnEdge(tmp_path / "wire", core, SimpleNamespace(max_model_len=64))  # type: ignore[arg-type]
        server: Any = SimpleNamespace(send=lambda outputs: pytest.fail(f"nobody waits for {outputs}"))

        def take(kind: EngineCoreRequestType, message: Any) -> None:
            edge._take(server, [kind.value, *encoder.encode(message)])

        for id in ("gone", "stays"):
            params = SamplingParams(max_tokens=9)
            take(EngineCoreRequestType.ADD, EngineCoreRequest(id, [1, 2], None, params, None, 0.0, None, None, None))
        for _ in range(turns):
            await asyncio.sleep(0)
        stopped = msgspec.msgpack.encode(StoppedRequests(["gone"], how))
        take(EngineCoreRequestType.UTILITY, (0, NO_ANSWER, STOP, (stopped,)))
        core.gate.set()
        await asyncio.sleep(0.05)
        assert core.added == ["stays"] and core.told == [(how, ["gone"])]
        assert edge.known(["gone", "stays"]) == ["stays"]

    asyncio.run(run())


def test_a_call_that_only_the_edge_knew_begins_and_ends_at_once(tmp_path: Path) -> None:
    core = Core()
    edge = OwnEdge(tmp_path / "wire", core, None)  # type: ignore[arg-type]  # what an edge asks of it
    brought = BroughtCall(5, "/v1/completions", 3.0, [("x", "y")], {})
    edge.answer(0, ENDED, [msgspec.msgpack.encode(CallEnd(5, "404", brought))])
    ((told, call),) = core.told
    assert told == "ended" and call.status == "404" and not edge._calls
    assert (call.route, call.arrival_s, call.headers) == ("/v1/completions", 3.0, [("x", "y")])


@pytest.mark.parametrize("full", [True, False])
def test_a_call_that_the_edge_has_refused_is_counted_and_the_next_one_is_told_what_is_so_now(
    tmp_path: Path, full: bool
) -> None:
    told = Refusal(Reason.QUEUE, "All 2 places of the queue are taken.", 1.0)
    now, seen = told._replace(wait_s=2.0), list[tuple[Any, ...]]()

    class FullCore(Core):
        admission = SimpleNamespace(class_of=lambda call: call.body["slo"])

        def check_places(self, n: int) -> None:
            seen.append(("asked", n, current_call()))
            if full:
                raise Overflow(now, 1.0)

        def refuse(self, refusal: Refusal) -> None:
            seen.append(("refused", refusal, current_call()))

    core = FullCore()
    edge = OwnEdge(tmp_path / "wire", core, None)  # type: ignore[arg-type]  # what an edge asks of it
    message = TurnedAway(BroughtCall(5, "/v1/completions", 3.0, [("x", "y")], {"slo": "z"}), told)
    output = edge.answer(7, PLACES, [msgspec.msgpack.encode(message)])
    assert output is not None and output.call_id == 7
    answered = msgspec.msgpack.decode(output.result.result, type=Judgement)
    assert answered == Judgement(now if full else None, {}, False)
    call = edge._calls[5]
    assert (call.route, call.arrival_s, call.headers, call.body) == ("/v1/completions", 3.0, [("x", "y")], {"slo": "z"})
    assert seen == [("asked", 1, call), *([] if full else [("refused", told._replace(slo="z"), call)])]
    edge.answer(0, ENDED, [msgspec.msgpack.encode(CallEnd(5, "429"))])
    assert core.told == [("ended", call)] and call.status == "429" and not edge._calls

"""An edge of ours in a process of its own, as the engine core sees it: a front end whose requests have calls, and are
judged."""

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from vllm.v1.engine import (
    EngineCoreOutputs,
    EngineCoreReadyResponse,
    EngineCoreRequest,
    UtilityOutput,
)
from vllm.v1.serial_utils import UtilityResult

from serving.call import Call, current_call, use
from serving.cluster.streams.sockets import Address
from serving.cluster.streams.stream import Sender
from serving.edge.engine_core import EmulatedCore
from serving.edge.front_ends.edge_messages import (
    ABORT,
    ADMIT,
    CALL,
    DELAYS,
    DROPPED,
    ENDED,
    INBOX,
    KEPT,
    MISSING,
    NO_ANSWER,
    PLACES,
    PULSE,
    STOP,
    UP,
    WARM,
    AdmissionCall,
    BroughtCall,
    CallEnd,
    Judgement,
    KeptRequests,
    MissingTokens,
    ReleaseDelays,
    StoppedRequests,
    TokenInbox,
    TurnedAway,
)
from serving.edge.front_ends.edge_wires import EdgeWire
from serving.edge.front_ends.front_end import FrontEnd
from serving.edge.refusals import Overflow
from serving.flight import Flight
from serving.refusals import Refusal
from serving.types import FAILED, Chunk, DroppedMessages, Release

# Whose tokens the edge may still ask for: requests that have ended within so many real seconds, with so many tokens.
ENDED_S, MOST_ENDED_TOKENS = 10.0, 1 << 18
LOST = "A message about this request was lost on its way, and nobody has its tokens any more."


class OwnEdge(FrontEnd):
    """Serves the edge that listens at a path, and the one that takes its place."""

    def __init__(self, path: Path, core: EmulatedCore, ready: EngineCoreReadyResponse) -> None:
        """`ready`: what it is told of its engine."""
        super().__init__(str(path), core, ready)
        self._path = path
        self.others: Sequence[OwnEdge] = ()
        """The edges beside this one."""
        self._calls: dict[int, Call] = {}
        # Of each call, by the numbers under which it was asked for them.
        self._judgements: dict[int, dict[int, Judgement]] = {}
        self.warm, self.up = asyncio.Event(), asyncio.Event()
        self._open, self._eager = False, list[int]()
        self._pulse = asyncio.Event()
        self._tokens: Sender[list[Release]] | None = None
        self._inbox: Address | None = None
        self._ended, self._ended_tokens = deque[tuple[float, list[int], Chunk]](), 0
        # What is told without an answer.
        self._hears: dict[str, Callable[[bytes], None]] = {
            PULSE: lambda _: self._pulse.set(),
            UP: lambda _: self.up.set(),
            ENDED: lambda told: self._end(msgspec.msgpack.decode(told, type=CallEnd)),
            ABORT: self._pass_on,
            STOP: lambda told: self._stop(msgspec.msgpack.decode(told, type=StoppedRequests)),
            KEPT: lambda told: self._end_others(msgspec.msgpack.decode(told, type=KeptRequests)),
            INBOX: lambda told: self._meet_inbox(msgspec.msgpack.decode(told, type=TokenInbox).address),
            MISSING: lambda told: self._give(msgspec.msgpack.decode(told, type=MissingTokens)),
            DELAYS: lambda told: core.deliveries.note_delays(msgspec.msgpack.decode(told, type=ReleaseDelays).late_s),
            DROPPED: lambda told: core.devices.observer.on_dropped(
                "edge", msgspec.msgpack.decode(told, type=DroppedMessages)
            ),
        }

    @property
    def routes(self) -> list[str]:
        """The routes of its calls that are in flight."""
        return [call.route for call in self._calls.values()]

    async def meet(self) -> list[EdgeWire]:
        """Connect to the edge, which may come later."""
        server = await EdgeWire.to(self._path)
        server.greet(self._ready)
        return [server]

    def tell(self, level: int, sentence: str) -> None:
        """Leave it to who has started the edge to say what became of it."""

    async def lives(self) -> None:
        """Wait for the edge to say that it lives."""
        self._pulse.clear()
        await self._pulse.wait()

    def open(self) -> None:
        """Let the edge serve, now or once it is warm."""
        self._open = True
        for call_id in self._eager:
            for server in self._servers:
                server.send(EngineCoreOutputs(utility_output=UtilityOutput(call_id, result=UtilityResult(b""))))
        self._eager.clear()

    def _pass_on(self, aborted: bytes) -> None:
        """Tell the other edges of requests that were aborted here, and are none of this one's."""
        told = EngineCoreOutputs(utility_output=UtilityOutput(NO_ANSWER, result=UtilityResult(aborted)))
        for edge in self.others:
            for server in edge._servers:
                server.send(told)

    def part(self) -> None:
        """Drop all that is left of an edge that has ended."""
        super().part()
        self._eager.clear()
        if self._tokens is not None:
            self._tokens.close()
        self._tokens = self._inbox = None
        for number in list(self._calls):
            self._end(CallEnd(number, ""))

    def context_of(self, request: EngineCoreRequest) -> contextvars.Context:
        """Return the context in which a request is added: that of its call, if it has one. One whose text is made in
        the background may come after its call has ended, and is served without it."""
        call = (request.trace_headers or {}).get(CALL)
        request.trace_headers = None
        return _context(None if call is None else self._calls.get(int(call)))

    def check(self, request: EngineCoreRequest) -> None:
        """Check nothing: the edge has, and its grammar may be larger by now than a client's may."""

    def answer(self, call_id: int, method: str, arguments: list[Any]) -> UtilityOutput | None:
        """Answer a utility call; None if nobody waits for that."""
        if method in (ADMIT, PLACES):
            told = arguments[0]
            judgement = self._admit(call_id, told) if method == ADMIT else self._turn_away(told)
            return UtilityOutput(call_id, result=UtilityResult(msgspec.msgpack.encode(judgement)))
        if method == WARM:
            self._eager.append(call_id)
            self.warm.set()
            if self._open:
                self.open()
            return None
        if (hear := self._hears.get(method)) is None:
            return super().answer(call_id, method, arguments)
        hear(arguments[0])
        return None

    @property
    def inbox(self) -> Address | None:
        """Return where it gets tokens straight from devices."""
        return self._inbox

    def deliver(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        """Hand over what a release gives requests of this edge, with its instant: the edge says when it went out."""
        self._send(Release(release.device, release.at_s, [chunk for _, chunk in news]))
        if ended := [(flight, chunk) for flight, chunk in news if chunk.finish is not None]:
            self._keep(ended)
            self.known([flight.request.id for flight, _ in ended])

    def _keep(self, ended: list[tuple[Flight, Chunk]]) -> None:
        """Keep the tokens of requests that have ended, and how they did, for a while."""
        now_s = time.monotonic()
        self._ended.extend((now_s, flight.tokens, last) for flight, last in ended)
        # Of who has ended they get no more.
        self._ended_tokens += sum(len(flight.tokens) for flight, _ in ended)
        while self._ended and (self._ended[0][0] < now_s - ENDED_S or self._ended_tokens > MOST_ENDED_TOKENS):
            self._ended_tokens -= len(self._ended.popleft()[1])

    def _meet_inbox(self, inbox: Address) -> None:
        """Send tokens there from now on; it is told anew at each pulse."""
        if inbox != self._inbox:
            self._inbox, self._tokens = inbox, Sender(inbox)

    def _send(self, release: Release) -> None:
        if self._tokens is not None:
            self._tokens.send([release])

    def _give(self, missing: MissingTokens) -> None:
        """Send what was sent, and has not come; a request that nobody has any more ends."""
        ended = {last.request_id: (tokens, last) for _, tokens, last in self._ended}
        for id, first in missing.positions:
            if flight := self._core.flight(id):
                chunk = Chunk(id, first, flight.tokens[first:])
            elif id in ended:
                tokens, last = ended[id]
                chunk = Chunk(id, first, tokens[first:], last.finish, last.stop_reason)
            elif id in self._adding:
                continue
            else:
                chunk = Chunk(id, first, [], FAILED, LOST)
            if chunk.tokens or chunk.finish is not None:
                self._send(Release(flight.device if flight else 0, self._core.clock.now(), [chunk]))

    def _begin(self, brought: BroughtCall) -> Call:
        """Begin a call, as it arrived at the edge."""
        call = Call(brought.arrival_s, brought.headers, brought.body, route=brought.route)
        call.posted_s = brought.posted_s
        call.at_end.append(lambda: self._core.ended(call))
        self._calls[brought.number] = call
        return call

    def _admit(self, call_id: int, told: bytes) -> Judgement:
        """Judge a request of a call, which begins with its first one; return the same judgement to who asks again, as
        the answer was lost."""
        message = msgspec.msgpack.decode(told, type=AdmissionCall)
        if (call := self._calls.get(message.call.number)) is None:
            call = self._begin(message.call)
            call.needs_model = message.text.model
        judgements = self._judgements.setdefault(message.call.number, {})
        if call_id not in judgements:
            judgements[call_id] = _context(call).run(self._judge, call, message)
        return judgements[call_id]

    def _turn_away(self, told: bytes) -> Judgement:
        """Count a call that the edge has refused; return what is to be said to the next one."""
        message = msgspec.msgpack.decode(told, type=TurnedAway)
        call = self._calls.get(message.call.number) or self._begin(message.call)
        return Judgement(_context(call).run(self._refuse, message.refusal), {}, False)

    def _refuse(self, told: Refusal) -> Refusal | None:
        """Refuse the current call, which was told so; return its refusal by what is so now, None if a place is free."""
        try:
            self._core.check_places(1)
        except Overflow as overflow:
            return overflow.refusal
        # Under its class, which the edge can't tell.
        self._core.refuse(told._replace(slo=self._core.admission.class_of(current_call())))
        return None

    def _judge(self, call: Call, message: AdmissionCall) -> Judgement:
        """Judge a request of the current call."""
        refusal = self._core.judge(call, message.id, message.asked, message.extra_args, message.priority)
        if refusal is None:
            self._core.choose_text_for(call, message.text)
        return Judgement(refusal, call.answer, bool(call.recorded))

    def _end(self, ended: CallEnd) -> None:
        if ended.brought is not None:
            self._begin(ended.brought)
        self._judgements.pop(ended.call, None)
        if call := self._calls.pop(ended.call, None):
            call.status = ended.status
            _context(call).run(call.end, None)

    def _end_others(self, kept: KeptRequests) -> None:
        """End all calls and requests but those that the edge still has: of their end a message was lost."""
        if requests := list(self._server_of.keys() - kept.requests):
            self._core.cancel(self.left(requests))
        for number in self._calls.keys() - kept.calls:
            self._end(CallEnd(number, ""))

    def _stop(self, stopped: StoppedRequests) -> None:
        """End requests, once what devices have told the edge alone is counted here."""
        for last in stopped.last:
            if flight := self._core.flight(last.request_id):
                self._core.deliveries.catch_up(flight, last.first, last.tokens)
        getattr(self._core, stopped.how)(self.left(stopped.ids))


def _context(call: Call | None) -> contextvars.Context:
    """Return a context of its own whose call is this one."""
    context = contextvars.copy_context()
    context.run(use, call)
    return context

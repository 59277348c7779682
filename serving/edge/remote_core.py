"""The engine core, for an edge in a process of its own: what `EmulatedCore` is to an edge in the same one; and the
devices, from which most tokens come straight."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Literal

import msgspec
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreOutputs, EngineCoreRequest, EngineCoreRequestType
from vllm.v1.serial_utils import MsgpackDecoder

from serving.admission_request import AdmissionRequest
from serving.call import Call, current_call
from serving.clock import WallClock
from serving.cluster.streams.stream import Inbox
from serving.edge.arrivals import Arrivals
from serving.edge.delivery.output_queue import OutputQueue
from serving.edge.delivery.token_order import TokenOrder
from serving.edge.front_ends.core_calls import CoreCalls
from serving.edge.front_ends.edge_messages import (
    ABORT,
    ADMIT,
    CALL,
    DELAYS,
    DROPPED,
    INBOX,
    KEPT,
    MISSING,
    NO_ANSWER,
    PLACES,
    PULSE,
    STOP,
    UP,
    WARM,
    AbortedRequests,
    AdmissionCall,
    Judgement,
    KeptRequests,
    MissingTokens,
    ReleaseDelays,
    StoppedRequests,
    TokenInbox,
    TurnedAway,
)
from serving.edge.front_ends.edge_wires import CoreWire
from serving.edge.front_ends.full_queue import FullQueue
from serving.edge.front_ends.told_calls import ToldCalls
from serving.edge.intake import Intake
from serving.edge.operations.unsent_requests import UnsentRequests
from serving.edge.operations.utility_calls import RefusedCalls
from serving.edge.refusals import SOONEST_S, Invalid, Overflow, exception_of
from serving.edge.request_bounds import check_integers, check_text_alone
from serving.edge.text_choice import TextNeeds, least_tokens, needs_model
from serving.refusals import Refusal
from serving.types import DroppedMessages, Release

# How often the engine core is told how late releases have gone out, in real seconds.
DELAYS_S = 0.25
# ... and that the edge lives.
PULSE_S = 1.0
# Pulses without a token of a request after which the core is asked whether one was lost, and then each time again.
QUIET_PULSES = 4
# The highest data-parallel rank that a request may name here.
LAST_DEVICE = 2**31 - 2


class RemoteCore(RefusedCalls):
    """Requests, and what is asked about them, go to the engine core; its outputs are for vLLM's output handler.

    A request is judged there: whoever answers a call waits for its `judging` first.
    """

    def __init__(
        self, wire: CoreWire, inbox: Inbox[list[Release]], clock: WallClock, arrivals: Arrivals, context: int
    ) -> None:
        """`inbox` gets tokens, from devices and from the core; `clock`: the emulation's; `context`: of how many tokens
        a request is at most."""
        self.clock, self.intake, self._context = clock, Intake(arrivals), context
        # Which there are is known to the core, which refuses requests for others: any index may be, as no device that
        # joins gets one that another has had.
        self.devices = SimpleNamespace(nodes=(LAST_DEVICE,))
        self.resources, self.unsent = SimpleNamespace(engine_dead=False), UnsentRequests()
        self.abort_here: Callable[[list[str]], None] = lambda ids: None
        """Ends those of this edge's requests that a client has aborted at another one, by the ids that it gave them."""
        self._wire = wire
        self.outputs = OutputQueue(self._note_delay)
        self._core, self._decoder = CoreCalls(wire), MsgpackDecoder(EngineCoreOutputs)
        self.calls = ToldCalls(self._core)
        self._delays: list[tuple[int, float]] = []
        self._order, self._inbox, self._full = TokenOrder(), inbox, FullQueue()
        wire.listen(self._take, self.outputs.flush)
        inbox.start(self._receive, self._tell_dropped, self.outputs.flush)
        self._core.tell(INBOX, TokenInbox(inbox.address))

    async def opened(self) -> None:
        """Say that this edge is warm, and wait until it may serve."""
        await self._core.ask_again(WARM, None, lambda: True)

    def tell_up(self) -> None:
        """Say that this edge serves."""
        self._core.tell(UP)

    async def send_pulses(self) -> None:
        """Say for ever that this edge serves, what it still has, and which tokens have not come."""
        while True:
            self._core.tell(PULSE)
            self._core.tell(INBOX, TokenInbox(self._inbox.address))
            self._core.tell(KEPT, KeptRequests(self.calls.numbers, self._order.expected))
            if missing := dict(self._order.missing(PULSE_S / 2)) | dict(self._order.quiet(QUIET_PULSES)):
                self._core.tell(MISSING, MissingTokens(list(missing.items())))
            await asyncio.sleep(PULSE_S)

    def admit(self, id: str, asked: AdmissionRequest, params: SamplingParams, priority: int) -> None:
        """Have a request of the current call judged, if there is one."""
        call = current_call()
        if call is None:
            return
        brought = self.calls.brought(call)
        check_integers("priority", priority)
        message = AdmissionCall(
            brought,
            id,
            asked,
            priority,
            params.extra_args or {},
            TextNeeds(
                call.needs_model or needs_model(params),
                params.temperature > 0,
                min(least_tokens(params), asked.max_tokens),
                call.prompts * asked.n,
            ),
        )
        task = call.judging[id] = asyncio.create_task(self._judge(call, message))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        if call.answered and (maker := asyncio.current_task()):
            # Its text is made in the background, which may fail before the core has the request.
            maker.add_done_callback(lambda _: self.calls.end(call))

    async def _judge(self, call: Call, message: AdmissionCall) -> None:
        """Raise `Overflow` or `Invalid` if the core refuses a request, GivenUp if it has not answered when the call
        ends."""
        answer = await self._core.ask_again(ADMIT, message, lambda: call.number == message.call.number)
        judgement = msgspec.msgpack.decode(answer, type=Judgement)
        call.answer |= judgement.answer
        call.recorded = judgement.recorded
        if message.asked.n == 1:
            self._full.note(judgement.refusal, time.monotonic())
        if judgement.refusal is not None:
            raise self._refused(call, judgement.refusal)

    def _refused(self, call: Call, refusal: Refusal) -> Overflow | Invalid:
        """Return the exception of a refusal; its call is told what its answer needs of it."""
        error = exception_of(refusal, self.clock.speed)
        if isinstance(error, Overflow):
            call.retry_after_s, call.refusal = error.retry_after_s, error
        return error

    async def add_request_async(self, request: EngineCoreRequest) -> None:
        """Have a request served, once it is admitted, unless it is aborted before."""
        check_text_alone(request, self._context)
        await self.unsent.send(request.request_id, partial(self._add, request))

    async def _add(self, request: EngineCoreRequest) -> None:
        call = current_call()
        try:
            if call is not None:
                await self._judged(call, request)
                request.trace_headers = {CALL: str(self.calls.number(call))}
            self._order.begin(request.request_id)
            self._wire.send(EngineCoreRequestType.ADD, request)
            if call is not None:
                self.intake.leave(call)
        finally:
            if call is not None and call.answered:
                # Its text is made in the background: nothing else tells the core that it has ended by now.
                self.calls.end(call)

    async def _judged(self, call: Call, request: EngineCoreRequest) -> None:
        """Wait until a request is admitted. Raise `Overflow` or `Invalid` if it is refused."""
        if (id := request.external_req_id) not in call.judging:
            # It had no tokens until now.
            rank, id = request.data_parallel_rank, request.request_id
            asked = AdmissionRequest(len(request.prompt_token_ids), request.sampling_params.max_tokens, 1, rank)
            self.admit(id, asked, request.sampling_params, request.priority)
        await asyncio.shield(call.judging[id])

    def refuse_all(self, refusal: Exception) -> None:
        """Leave those that wait to the core: none of them keeps its client here from an answer."""

    def check_places(self, n: int) -> None:
        """Raise `Overflow` for a call of which nothing was judged yet, while the queue is full by the core's last word.
        Otherwise leave the places to the core, which checks them when it judges."""
        call, refusal = current_call(), self._full.refusal(time.monotonic())
        if refusal is None or n > 1 or call is None or call.judging or call.answered:
            return
        self._core.ask(PLACES, TurnedAway(self.calls.brought(call), refusal)).add_done_callback(self._learn_of_places)
        raise self._refused(call, refusal)

    def _learn_of_places(self, answer: asyncio.Future[bytes]) -> None:
        """Take note of what the core says to whoever comes now."""
        if not answer.cancelled() and answer.exception() is None:
            self._full.note(msgspec.msgpack.decode(answer.result(), type=Judgement).refusal, time.monotonic())

    def retry_after_s(self) -> float:
        """Real seconds until a place may be free, for whom the core has told nothing better."""
        return SOONEST_S

    def ended(self, call: Call) -> None:
        """Tell the core that a call was answered, or broken off."""
        self.calls.answered(call)

    async def abort_requests_async(self, request_ids: list[str]) -> None:
        """vLLM's output handler calls this for one reason: it has seen a stop string."""
        self._end(request_ids, "stop")

    def give_up(self, request_ids: list[str]) -> None:
        """End requests whose outputs could not be processed, and choices beside them; their clients have been told."""
        self.unsent.abort(request_ids)
        self._end(request_ids, "give_up")

    def cancel(self, request_ids: list[str]) -> None:
        """End requests whose clients have gone, or said so."""
        self.unsent.abort(request_ids)
        self._end(request_ids, "cancel")

    def abort_elsewhere(self, ids: list[str]) -> None:
        """Have other edges end those of their requests that a client has aborted here, by the ids that it gave them."""
        self._core.tell(ABORT, AbortedRequests(ids))

    def _end(self, request_ids: list[str], how: Literal["stop", "give_up", "cancel"]) -> None:
        if request_ids:
            self._core.tell(STOP, StoppedRequests(request_ids, how, self._order.end(request_ids)))

    async def get_output_async(self) -> EngineCoreOutputs:
        return await self.outputs.get()

    def shutdown(self, timeout: float | None = None) -> None:
        self.resources.engine_dead = True
        self._wire.close()
        self._inbox.close()

    def _take(self, frames: list[bytes]) -> None:
        """Take a message in; what can't be read is dropped and told of."""
        try:
            outputs = self._decoder.decode(frames)
            if (answer := outputs.utility_output) is None:
                # Requests that could not be begun: what is begun comes to the inbox.
                self._order.end(output.request_id for output in outputs.outputs)
                self.outputs.put(outputs)
            elif answer.call_id == NO_ANSWER:
                self.abort_here(msgspec.msgpack.decode(answer.result.result, type=AbortedRequests).ids)
            else:
                self._core.take(answer)
        except Exception as error:  # of whatever kind: others come with it
            self._tell_dropped(DroppedMessages(1, f"{type(error).__name__}: {error}"))

    def _receive(self, releases: list[Release]) -> None:
        for release in releases:
            if chunks := self._order.take(release.chunks):
                self.outputs.put_chunks(release.device, release.at_s, chunks)

    def _note_delay(self, device: int, at_s: float) -> None:
        if not self._delays:
            asyncio.get_running_loop().call_later(DELAYS_S, self._tell_delays)
        self._delays.append((device, self.clock.late(at_s)))

    def _tell_delays(self) -> None:
        delays, self._delays = self._delays, []
        self._core.tell(DELAYS, ReleaseDelays(delays))

    def _tell_dropped(self, dropped: DroppedMessages) -> None:
        self._core.tell(DROPPED, dropped)

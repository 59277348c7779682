"""Emulated engine core: what vLLM's front end talks to, with emulated devices behind the dispatcher."""

import copy
import random
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreOutputs, EngineCoreRequest, FinishReason

from serving.admission.forecast_feed import ForecastFeed
from serving.admission.request_options import InvalidOption
from serving.admission.reservations import Admission
from serving.admission_request import AdmissionRequest
from serving.call import Call, arrival_s, choices_of, current_call
from serving.clock import WallClock
from serving.cluster.batched_listeners import BatchedListeners
from serving.cluster.dispatcher import Dispatcher, EmulationActors
from serving.cluster.fault_injector import FaultInjector
from serving.cluster.observer import EdgeBroadcast, EdgeObserver
from serving.cluster.streams.arrival_board import ArrivalBoard
from serving.edge.arrivals import Arrivals
from serving.edge.delivery.deliveries import Deliveries
from serving.edge.description import describe
from serving.edge.edge_admission import DepartureFeed
from serving.edge.intake import Intake
from serving.edge.kv_events.answer_feed import AnswerFeed
from serving.edge.kv_events.options import prefixes_of
from serving.edge.kv_events.publishers import KvEvents
from serving.edge.operations.gate import Gate
from serving.edge.operations.unsent_requests import UnsentRequests
from serving.edge.operations.utility_calls import UtilityCalls
from serving.edge.prompt_topics import PromptTopics, find_topic
from serving.edge.refusals import SOONEST_S, GivenUp, Overflow, exception_of
from serving.edge.request_bounds import check_text_alone
from serving.edge.text_choice import TextChoice, TextNeeds, next_stream_of, rate_of
from serving.flight import Flight, Sink
from serving.recordings.answers import Answers
from serving.recordings.source_load import SourceLoad
from serving.refusals import Reason, Refusal

ENDED = "A part of the server that nothing can do without has ended."


class EmulatedCore(UtilityCalls):
    """Requests become flights; releases become what vLLM's output handler expects of a step."""

    def __init__(
        self,
        emulation: EmulationActors,
        admission: Admission,
        observers: Sequence[EdgeObserver],
        answers: Answers | None = None,
        topics: PromptTopics | None = None,
        kv_events: KvEvents | None = None,
    ) -> None:
        """`answers` are recorded; `topics` tells what prompts are about. `observers` hear nothing before `listen`."""
        cluster = emulation.cluster
        scenario, self.clock = cluster.scenario, WallClock(*cluster.clock)
        self._dispatcher: Dispatcher
        self.admission, self.gate, self.kv_events = admission, Gate(), kv_events
        self._prefixes = prefixes_of(scenario, kv_events)
        self._listeners = BatchedListeners(observers)
        rules, now = admission.rules, self.clock.now
        rate = rate_of(rules.forecast.tokens_per_s, scenario.speed)
        alone = next_stream_of(rules.forecast.next_stream, now, scenario.speed)
        load = SourceLoad(rate, alone, lambda: rules.forecast.devices, lambda: self._dispatcher.sources.up)
        self._text = TextChoice(scenario.text, answers, load)
        answered = AnswerFeed(self._prefixes.block_tokens, lambda device: self.devices.nodes.get(device))
        feeds = ForecastFeed(rules.forecast, scenario, now), DepartureFeed(rules, now), answered, self._text
        self._observer = EdgeBroadcast([*feeds, *([kv_events] if kv_events else ()), self._listeners])
        self.deliveries = Deliveries(self._observer, self.clock)
        self.outputs = self.deliveries.outputs
        self._dispatcher = Dispatcher(emulation, self._observer, self.deliveries, self._fail)
        self.devices = self._dispatcher.devices
        self.injector = FaultInjector(self.devices, self.clock, scenario.seed)
        self.resources, self.unsent = SimpleNamespace(engine_dead=False), UnsentRequests()
        board = ArrivalBoard(emulation.inbox.address.folder)
        self.intake, self._topics = Intake(Arrivals(self.clock, partial(board.post, 0))), topics

    async def start(self) -> None:
        """Begin to take the devices' releases."""
        await self._dispatcher.start()

    def listen(self) -> None:
        """Have the observers hear of all that happens from now on, and of the devices that there are."""
        self._listeners.listen()
        for node in self.devices.nodes.values():
            self._listeners.on_change(node)

    def tell_all(self) -> None:
        """Have the observers hear at once of all that has happened so far."""
        self._listeners.flush()

    @property
    def flights(self) -> Collection[Flight]:
        """The requests in flight."""
        return self._dispatcher.flights.values()

    def flight(self, request_id: str) -> Flight | None:
        """Return a request in flight; None if it is not."""
        return self._dispatcher.flights.get(request_id)

    def drop(self, request_ids: list[str]) -> None:
        """Stop requests on their devices, which are in flight here until they are ended."""
        self._dispatcher.drop(request_ids)

    async def add_request_async(self, request: EngineCoreRequest, sink: Sink | None = None) -> None:
        """Have a request served. `sink` gets its outputs; without one they go to this process's own front end, which
        may abort it before it is in flight."""
        check_text_alone(request, self.devices.cluster.max_model_len)
        if sink is None:
            await self.unsent.send(request.request_id, partial(self._add, request, None))
        else:
            await self._add(request, sink)

    async def _add(self, request: EngineCoreRequest, sink: Sink | None) -> None:
        """Bring a request into flight, once it may be."""
        await self.gate.passed()
        params = request.sampling_params
        recorded = self._text.choose(params, self._dispatcher.sources.cost)
        if params.seed is None and params.temperature > 0:
            # With a seed a request can be made again after a crash, token by token. Children of `n` share params.
            request.sampling_params = params = copy.copy(params)
            params.seed = random.getrandbits(63)
        admitted = self._admitted(request)
        flight = await self._flight(request, admitted, recorded, sink)
        if flight.call is not None:
            self.admission.begin(admitted, self.clock.now())
        self._observer.on_begin(flight)
        try:
            await self._dispatcher.submit(flight)
        except BaseException:
            # Whoever goes away while this waits would otherwise be in flight for ever.
            self._end([flight.request.id], FinishReason.ABORT)
            raise
        if flight.call is not None:
            self.intake.leave(flight.call)

    async def _flight(
        self, request: EngineCoreRequest, admitted: AdmissionRequest, recorded: bool, sink: Sink | None
    ) -> Flight:
        """Describe a request, and choose its device. Raise GivenUp if there is none left."""
        classified_s = await find_topic(self._topics, request.prompt_token_ids, admitted, self.clock.now)
        # A pause may have begun meanwhile.
        await self.gate.passed()
        if self.resources.engine_dead:
            raise GivenUp(ENDED)
        arrived_s = arrival_s(self.clock, request.external_req_id or request.request_id)
        choices = choices_of(request.external_req_id, admitted.n)
        described = describe(request, admitted, choices, arrived_s, self._prefixes)
        return Flight(
            core_request=request,
            request=described,
            recorded=self._text.answer(described, request.sampling_params) if recorded else None,
            device=self._dispatcher.choose(described, request.data_parallel_rank),
            rank=request.data_parallel_rank,
            slo=admitted.slo,
            choices=choices,
            shareable=len(described.blocks) * self._prefixes.block_tokens,
            call=current_call(),
            classified_s=classified_s,
            sink=sink,
        )

    def ended(self, call: Call) -> None:
        """Tell the observer that a call was answered, or broken off."""
        self._observer.on_answer(call)

    def admit(self, id: str, asked: AdmissionRequest, params: SamplingParams, priority: int) -> None:
        """Admit a request of the current call, if any, and choose its text's source. Raise `Overflow` or `Invalid`.

        `priority` is what vLLM has read of it, in body or header; 0 says nothing.
        """
        if call := current_call():
            if refusal := self.judge(call, id, asked, params.extra_args or {}, priority):
                raise exception_of(refusal, self.clock.speed)
            self._text.choose(params, self._dispatcher.sources.cost, call.prompts * asked.n)

    def judge(
        self, call: Call, id: str, asked: AdmissionRequest, extra_args: Mapping[str, Any], priority: int
    ) -> Refusal | None:
        """Admit a call's request, and return None, or tell of its refusal, and return that."""
        if asked.device is not None and asked.device not in self.devices.nodes:
            there = ", ".join(map(str, self.engine_ranks_managed))
            sentence = f"There is no device {asked.device}, which `data_parallel_rank` names; those there are: {there}."
            return self.refuse(Refusal(Reason.INVALID, sentence, field="data_parallel_rank"))
        if priority:
            call.body = {"priority": priority, **call.body}
        try:
            admitted = self.admission.admit(call, id, asked, extra_args, len(self.flights), self.clock.now())
        except InvalidOption as error:
            return self.refuse(error.refusal)
        return self.refuse(admitted) if isinstance(admitted, Refusal) else None

    def refuse(self, refusal: Refusal) -> Refusal:
        """Tell the observers of a refusal, and the current call what its answer needs of it; return it."""
        self._observer.on_refusal(refusal, None)
        if refusal.for_now and (call := current_call()):
            error = Overflow(refusal, self.clock.speed)
            call.retry_after_s, call.refusal = error.retry_after_s, error
        return refusal

    def choose_text_for(self, call: Call, needs: TextNeeds) -> bool:
        """Tell whether a call of another process's edge gets recorded text, which is decided once."""
        return self._text.choose_for(call, needs, self._dispatcher.sources.cost)

    def check_places(self, n: int) -> None:
        """Raise `Overflow` or `Invalid` if the queue has no room for `n` sequences more."""
        if refusal := self.admission.judge_places(current_call(), n, len(self.flights), self.clock.now()):
            raise exception_of(self.refuse(refusal), self.clock.speed)

    @property
    def set_aside(self) -> int:
        """Places in the queue of requests that were admitted and are not in flight yet."""
        return self.admission.set_aside

    def retry_after_s(self) -> float:
        """Real seconds until a place should be free for who asks now."""
        return max(SOONEST_S, self.admission.rules.departures.promise_s(self.clock.now()) / self.clock.speed)

    def _admitted(self, request: EngineCoreRequest) -> AdmissionRequest:
        """Return what was said of a request when it was admitted, or is said now of one that had no tokens then."""
        call, params = current_call(), request.sampling_params
        asked = AdmissionRequest(len(request.prompt_token_ids), params.max_tokens, 1, request.data_parallel_rank)
        if call is None:
            return asked
        # One that had no tokens when it came to another process's edge is admitted by the id inside.
        admitted = call.admitted.get(request.external_req_id) or call.admitted.get(request.request_id)
        if admitted is None:
            self.admit(request.request_id, asked, params, request.priority)
            admitted = call.admitted[request.request_id]
        return admitted

    async def abort_requests_async(self, request_ids: list[str]) -> None:
        """vLLM's output handler calls this for one reason: it has seen a stop string."""
        self.stop(request_ids)

    def give_up(self, request_ids: list[str]) -> None:
        """End requests whose outputs could not be processed, and choices beside them; their clients have been told."""
        self.unsent.abort(request_ids)
        self._end(request_ids, FinishReason.ERROR)

    def stop(self, request_ids: list[str]) -> None:
        """End requests whose text has come to a stop string."""
        self._end(request_ids, FinishReason.STOP)

    def refuse_all(self, refusal: Exception) -> None:
        """Refuse requests from now on, and those that wait while the devices are paused."""
        self.gate.refuse(refusal)

    def fail_all(self) -> None:
        """End every request with an error, now and from now on: there is nothing left that could serve it."""
        self.resources.engine_dead = True
        self.gate.open()
        for flight in self._dispatcher.abort(list(self._dispatcher.flights)):
            self._fail(flight, ENDED)

    def abort_all(self) -> None:
        """End every request as aborted; their clients get what they have so far."""
        for flight in self._dispatcher.abort(list(self._dispatcher.flights)):
            self.deliveries.end(flight, FinishReason.ABORT)

    def cancel(self, request_ids: list[str]) -> None:
        """End requests whose clients have gone, or said so."""
        self.unsent.abort(request_ids)
        self._end(request_ids, FinishReason.ABORT)

    async def get_output_async(self) -> EngineCoreOutputs:
        return await self.outputs.get()

    def shutdown(self, timeout: float | None = None) -> None:
        self.resources.engine_dead = True
        self.injector.stop()
        self._dispatcher.stop()
        self._listeners.flush()
        self.end_operations()

    def _end(self, request_ids: list[str], reason: FinishReason) -> None:
        for flight in self._dispatcher.abort(request_ids):
            self.deliveries.finish(flight, reason)

    def _fail(self, flight: Flight, why: str) -> None:
        """End a request that cannot be served; its client is told why."""
        self.deliveries.end(flight, FinishReason.ERROR, why)

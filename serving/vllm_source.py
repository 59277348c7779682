"""The token source: vLLM's engine core, running ahead of the emulated clock into a bounded buffer per request."""

import pickle
import queue
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest, FinishReason
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor import Executor
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request

from serving.flow import Chunk
from serving.replay import KNOWN_TOKENS
from serving.routes import ROUTES, Cut

IDLE_S = 0.005


class RunAheadScheduler(Scheduler):  # type: ignore[misc]
    """vLLM's scheduler, with requests that can be held: they stay as they are, and get no step."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.running: list[Request]
        self.held: set[str] = set()
        self._routes: dict[str, list[Cut]] = defaultdict(list)
        allocate_only_when_needed(self.kv_cache_manager)

    def schedule(self, *args: object, **kwargs: object) -> SchedulerOutput:
        """One step for all requests that are not held."""
        held = [request for request in self.running if request.request_id in self.held]
        if not held:
            return super().schedule(*args, **kwargs)
        self.running = [request for request in self.running if request.request_id not in self.held]
        try:
            return super().schedule(*args, **kwargs)
        finally:
            self.running.extend(held)

    def update_from_output(self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput) -> Any:
        """vLLM's own, with the experts that were routed to, where the worker tells: of every token since the last."""
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        for id, cut in getattr(model_runner_output, ROUTES, {}).items():
            self._routes[id].append(cut)
        if not self._routes:
            return outputs
        for output in (output for core in outputs.values() for output in core.outputs):
            if cuts := self._routes.pop(output.request_id, None):
                output.routed_experts = np.concatenate(cuts)
        for id in self.finished_req_ids & self._routes.keys():
            del self._routes[id]
        return outputs

    def has_work(self) -> bool:
        """Whether a step would compute anything, or has finished requests to tidy away."""
        waiting, running = len(self.waiting), len(self.running)
        held = sum(request.request_id in self.held for request in self.running)
        return waiting > 0 or running > held or bool(self.finished_req_ids)


def allocate_only_when_needed(manager: KVCacheManager) -> None:
    """Spare decoding tokens the search for a slot in a block that they have already: a seventh of a tiny model's step.

    Only where a block means nothing but room: full attention, no prefix cache, no drafts.
    """
    groups = manager.coordinator.single_type_managers
    if manager.enable_caching or [type(group) for group in groups] != [FullAttentionManager]:
        return
    block_size, search, nothing = groups[0].block_size, manager.allocate_slots, manager.empty_kv_cache_blocks

    def allocate_slots(request: Request, num_new_tokens: int, *args: Any, **kwargs: Any) -> Any:
        has_room = request.num_output_tokens > 0 and request.num_computed_tokens % block_size != 0
        if num_new_tokens == 1 and has_room and not kwargs.get("num_lookahead_tokens"):
            return nothing
        return search(request, num_new_tokens, *args, **kwargs)

    manager.allocate_slots = allocate_slots


@dataclass(slots=True)
class Live:
    """A request whose client still waits: all that vLLM has made of it, and how much the device has taken."""

    device: int
    chunks: list[Chunk] = field(default_factory=list)
    made: int = 0
    taken: int = 0
    known: int = 0
    finished: bool = False


class VllmSource:
    """Owns an `EngineCore`. Calls from any thread become commands to the one thread that runs `cycle`."""

    def __init__(self, args: AsyncEngineArgs, ahead: int, deliver: Callable[[int, list[Chunk]], None]) -> None:
        """`ahead`: tokens that a request may be ahead of its device; `deliver(device, chunks)` sends them there."""
        config = args.create_engine_config()
        config.scheduler_config.scheduler_cls = RunAheadScheduler
        self._core = EngineCore(config, Executor.get_class(config), log_stats=False)
        self._scheduler: RunAheadScheduler = self._core.scheduler
        self._ahead = ahead
        self._deliver = deliver
        self._live: dict[str, Live] = {}
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def warm_up(self, request_id: str, device: int, tokens: int) -> None:
        """Make some tokens that no client waits for: the first ones of a process take much longer than the rest."""
        request = EngineCoreRequest(
            request_id=request_id,
            prompt_token_ids=list(range(1, 33)),
            mm_features=None,
            sampling_params=SamplingParams(max_tokens=tokens, seed=0, ignore_eos=True),
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )
        self.add(request, device, [])

    def add(self, request: EngineCoreRequest, device: int, known: list[int]) -> None:
        """Begin a request; `known` are tokens of it that an earlier source made, to be made again."""
        self.do(lambda: self._add(request, device, known))

    def drop(self, request_ids: list[str]) -> None:
        """Forget requests: done, or aborted."""
        self.do(lambda: self._drop(request_ids))

    def taken(self, positions: dict[str, int]) -> None:
        """Learn how far a device has got with its requests."""
        self.do(lambda: self._taken(positions))

    def resend(self, request_id: str, position: int, device: int) -> None:
        """Deliver again all tokens of a request from `position` of its output on, and those to come, to `device`."""
        self.do(lambda: self._resend(request_id, position, device))

    def do(self, command: Callable[[], None]) -> None:
        """Have something done by the thread that runs `cycle`, before its next step."""
        self._commands.put(command)

    def cycle(self) -> None:
        """Carry out what has been asked, then make one step of tokens; waits while there is nothing to do."""
        self._carry_out(wait=not self._scheduler.has_work())
        if not self._scheduler.has_work():
            return
        outputs, computed = self._core.step_fn()
        if not computed:
            # What waits cannot begin yet (no room in the KV cache, a grammar still compiling): no need to spin.
            self._carry_out(wait=True, timeout_s=IDLE_S)
        batches: dict[int, list[Chunk]] = defaultdict(list)
        for core_outputs in (outputs or {}).values():
            for output in core_outputs.outputs:
                self._collect(output, batches)
        for device, chunks in batches.items():
            self._deliver(device, chunks)

    def _carry_out(self, wait: bool, timeout_s: float | None = None) -> None:
        try:
            self._commands.get(block=wait, timeout=timeout_s)()
            while True:
                self._commands.get_nowait()()
        except queue.Empty:
            pass

    def _add(self, request: EngineCoreRequest, device: int, known: list[int]) -> None:
        if known and request.sampling_params is not None:
            extra_args = dict(request.sampling_params.extra_args or {})
            request.sampling_params.extra_args = extra_args | {KNOWN_TOKENS: known}
        self._live[request.request_id] = Live(device, known=len(known))
        try:
            self._core.add_request(*self._core.preprocess_add_request(request))
        except Exception as error:
            # The client gets a finished, failed request; every other request goes on.
            failed = Chunk(request.request_id, 0, [], int(FinishReason.ERROR), str(error))
            self._deliver(device, [failed])

    def _drop(self, request_ids: list[str]) -> None:
        unfinished = [id for id in request_ids if (live := self._live.pop(id, None)) and not live.finished]
        self._scheduler.held.difference_update(request_ids)
        if unfinished:
            self._core.abort_requests(unfinished)

    def _taken(self, positions: dict[str, int]) -> None:
        for request_id, position in positions.items():
            if live := self._live.get(request_id):
                live.taken = max(live.taken, position)
                if live.made - live.taken < self._ahead:
                    self._scheduler.held.discard(request_id)

    def _resend(self, request_id: str, position: int, device: int) -> None:
        if live := self._live.get(request_id):
            live.taken, live.device = position, device
            self._deliver(live.device, [chunk for chunk in live.chunks if chunk.first >= position])

    def _collect(self, output: EngineCoreOutput, batches: dict[int, list[Chunk]]) -> None:
        live = self._live.get(output.request_id)
        if live is None:
            return
        chunk = to_chunk(output, live.made)
        live.chunks.append(chunk)
        live.made += len(chunk.tokens)
        live.finished = chunk.finish is not None
        # What an earlier source made already counts as taken: the device has it, or had it.
        if not live.finished and live.made - max(live.taken, live.known) >= self._ahead:
            self._scheduler.held.add(output.request_id)
        batches[live.device].append(chunk)


def to_chunk(output: EngineCoreOutput, position: int) -> Chunk:
    """vLLM's output of one step of one request, without the token engine's own statistics."""
    finish = None if output.finish_reason is None else int(output.finish_reason)
    rich = output.new_logprobs is not None or output.new_prompt_logprobs_tensors is not None
    extra = routes = None
    if output.routed_experts is not None:
        # Not among what the edge opens: the device has use for it, and clients have not.
        routes, output.routed_experts = output.routed_experts.tobytes(), None
    if rich:
        output.prefill_stats = output.events = None
        extra = pickle.dumps(output)
    return Chunk(output.request_id, position, output.new_token_ids, finish, output.stop_reason, extra, routes)

"""vLLM's scheduler for a token source: it can hold requests, run few of many, and name those of its last step."""

import time
from collections import defaultdict
from collections.abc import Collection
from typing import Any

import numpy as np
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from serving.token_source.live_request import LiveRequest
from serving.token_source.routes import ROUTES, Cut

HELD = 2**62
"""The step from which on a held request may decode: never."""


class RunAheadScheduler(Scheduler):  # type: ignore[misc]
    """A scheduler of at most `rows` of the requests that are not held, the ones with the least lead first.

    Held requests stay in `running`, each with its KV blocks; vLLM's own field `next_decode_eligible_step` keeps them
    out of a step. So any number of requests may run, and `max_num_seqs` limits only the rows of a step. Where the KV
    cache has no room for a request that needs it, held ones are parked: they give their blocks back, and compute them
    again once they are needed.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.running: list[Request]
        self.rows: int = self.scheduler_config.max_num_seqs
        self.max_num_running_reqs = HELD
        self.held: set[str] = set()
        self.parked: dict[str, Request] = {}
        # Those whose clients wait, by id. Whoever begins and ends them keeps this up to date.
        self.live: dict[str, LiveRequest] = {}
        # The only requests that may have a step, while the cause of a crash is looked for; None: all.
        self.allowed: Collection[str] | None = None
        self.in_step: list[str] = []
        self._routes: dict[str, list[Cut]] = defaultdict(list)
        allocate_only_when_needed(self.kv_cache_manager)

    def schedule(self, *args: object, **kwargs: object) -> SchedulerOutput:
        """Return one step's schedule; a request that crashes it is in `in_step`."""
        self._keep_parked()
        aside = self._set_aside()
        chosen = self._choose()
        self.in_step = [*chosen, *(request.request_id for request in self.waiting)]
        for request in self.running:
            request.next_decode_eligible_step = 0 if request.request_id in chosen else HELD
        self.max_num_active_reqs = len(self.running) + self.rows - len(chosen)
        try:
            output = super().schedule(*args, **kwargs)
        finally:
            for request in aside:
                self.waiting.add_request(request)
        self.in_step = list(output.num_scheduled_tokens)
        if self._short_of_blocks():
            self._park()
        return output

    def update_from_output(self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput) -> Any:
        """Return vLLM's outputs, with the routes of all tokens since a request's last output if the worker has them."""
        resumed = scheduler_output.scheduled_cached_reqs.resumed_req_ids
        told = {id for id in resumed if self.requests[id].num_output_tokens}
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        for id, cut in getattr(model_runner_output, ROUTES, {}).items():
            # Who was preempted computes all of its tokens again, whose routes went out with its earlier outputs.
            self._routes[id].append(cut[-1:] if id in told else cut)
        if not self._routes:
            return outputs
        for output in (output for core in outputs.values() for output in core.outputs):
            if cuts := self._routes.pop(output.request_id, None):
                output.routed_experts = np.concatenate(cuts)
        for id in self.finished_req_ids & self._routes.keys():
            del self._routes[id]
        return outputs

    def finish_requests(self, request_ids: Any, finished_status: RequestStatus) -> list[Request]:
        """Finish requests as vLLM does; they are no longer parked or held."""
        finished: list[Request] = super().finish_requests(request_ids, finished_status)
        for request in finished:
            self.parked.pop(request.request_id, None)
            self.held.discard(request.request_id)
        return finished

    def has_work(self) -> bool:
        """Tell whether a step would compute anything, or has finished requests to tidy away."""
        ready = any(self._may_run(request) for request in (*self.running, *self.waiting, *self.parked.values()))
        return ready or bool(self.finished_req_ids)

    def _may_run(self, request: Request) -> bool:
        id = request.request_id
        return id not in self.held and (self.allowed is None or id in self.allowed)

    def _lead(self, id: str) -> int:
        """Return how many tokens a request is ahead of its device; 0 if no client waits for it."""
        return self.live[id].lead if id in self.live else 0

    def _choose(self) -> set[str]:
        """Choose the requests that decode: least lead first, with a row left to one that waits for its first token."""
        ready = [request.request_id for request in self.running if self._may_run(request)]
        rows = self.rows - (1 if self.waiting and self.rows > 1 else 0)
        return set(sorted(ready, key=self._lead)[:rows] if len(ready) > rows else ready)

    def _set_aside(self) -> list[Request]:
        """Take requests that may not run out of the queue, for the length of a schedule."""
        aside = [request for request in self.waiting if not self._may_run(request)]
        if aside:
            self.waiting.remove_requests(aside)
        return aside

    def _short_of_blocks(self) -> bool:
        """Tell whether the next request in the queue waits for blocks of the KV cache."""
        first = next((request for request in self.waiting if self._may_run(request)), None)
        return first is not None and first.num_tokens > self.block_size * self._blocks_left()

    def _blocks_left(self) -> int:
        return int(self.kv_cache_manager.block_pool.get_num_free_blocks())

    def _park(self) -> None:
        """Free the KV blocks of the request that may not run, and is furthest ahead."""
        held = [request for request in self.running if not self._may_run(request)]
        if not held:
            return
        request = max(held, key=lambda request: self._lead(request.request_id))
        self.running.remove(request)
        self._preempt_request(request, time.monotonic())
        self._keep_parked()

    def _keep_parked(self) -> None:
        """Park held requests that have lost their blocks, and queue parked ones that are held no longer."""
        parked = [request for request in self.waiting if request.request_id in self.held]
        if parked:
            self.waiting.remove_requests(parked)
            self.parked |= {request.request_id: request for request in parked}
        for id in self.parked.keys() - self.held:
            self.waiting.add_request(self.parked.pop(id))


def allocate_only_when_needed(manager: KVCacheManager) -> None:
    """Spare decoding tokens the search for a slot in a block that they have: a seventh of a tiny model's step.

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

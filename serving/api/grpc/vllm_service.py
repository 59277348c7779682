"""The `VllmEngine` service, which routers speak: vLLM's implementation, telling of the emulated devices, and with the
sampling fields that it drops."""

import contextvars
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
from smg_grpc_proto import vllm_engine_pb2
from smg_grpc_servicer.load_record import engine_load_from
from smg_grpc_servicer.vllm.loads import LoadEstimate, scheduler_load_fields
from smg_grpc_servicer.vllm.servicer import VllmEngineServicer

from serving.api.grpc.emulated_config import EmulatedConfig
from serving.edge.operations.utility_calls import NO_PROFILER, UtilityCalls
from serving.telemetry.metrics.recent_load import RankLoad

# Whether the call at hand wants its grammar from the first token: the servicer has no way to hand that on.
_grammar_at_once = contextvars.ContextVar("grammar_at_once", default=False)

OTHER_DEVICES = (
    "Other devices publish KV events now than did when this began: forget what you know, and subscribe anew."
)
Loads = Callable[[], Mapping[int, RankLoad]]


class EngineServicer(VllmEngineServicer):  # type: ignore[misc]
    """smg-grpc-servicer's, as of 0.14.1. Ranks are devices."""

    def __init__(self, engine: Any, start_time: float, loads: Loads | None = None) -> None:
        """Serve an engine; `loads` tells the load of each device, which an edge in its own process is not asked for."""
        super().__init__(HonouringEngine(engine), start_time)
        self._loads_now: Loads = loads or dict

    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Tokens as they come, or all at the end. Of media even a name is refused: it would be opened, as a file."""
        if request.HasField("mm_inputs") or request.extra_mm_inputs or request.HasField("media_refs"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "foreserve takes text and tokens only: no media.")
        _grammar_at_once.set(request.sampling_params.grammar_from_first_token)
        async for response in super().Generate(request, context):
            yield response

    async def StartProfile(self, request: Any, context: Any) -> None:
        """Refuse: there is no profiler."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, NO_PROFILER)

    async def StopProfile(self, request: Any, context: Any) -> None:
        """Refuse: there is no profiler."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, NO_PROFILER)

    async def GetServerInfo(self, request: Any, context: Any) -> Any:
        """Return the server's identity and its load, which upstream leaves out."""
        info = await super().GetServerInfo(request, context)
        info.server_type = "vllm-grpc"
        # Also those of edges and front ends in processes of their own, which all have this answered by the engine core.
        info.active_requests = len(self.engine.engine_core.flights)
        info.is_paused = await self.engine.is_paused()
        info.uptime_seconds = time.time() - self.start_time
        return info

    async def GetLoads(self, request: Any, context: Any) -> Any:
        """Return the load of each device, or of the one that is asked for."""
        answer = await super().GetLoads(request, context)
        if request.HasField("dp_rank"):
            there = [load for load in answer.loads if load.dp_rank == request.dp_rank]
            if not there:
                known = ", ".join(str(load.dp_rank) for load in answer.loads)
                sentence = (
                    f"There is no device {request.dp_rank}, which `dp_rank` names; those that there are: {known}."
                )
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, sentence)
            del answer.loads[:]
            answer.loads.extend(there)
            answer.dp_rank_count = len(there)
        return answer

    async def SubscribeKvEvents(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Relay the devices' KV events, until others join or leave, which a relay would not follow."""
        began = self.engine.get_kv_event_sources().keys()
        async for batch in super().SubscribeKvEvents(request, context):
            if self.engine.get_kv_event_sources().keys() != began:
                await context.abort(grpc.StatusCode.DATA_LOSS, OTHER_DEVICES)
            yield batch

    def _scheduler_loads(self) -> list[Any]:
        """Return the load of each device, which upstream takes from statistics of vLLM's engine."""
        loads = self._loads_now()
        # A device that is joining has none yet.
        there = (rank for rank in self.engine.engine_core.engine_ranks_managed if rank in loads)
        return [self._scheduler_load(rank, loads[rank]) for rank in there]

    def _load_record(self, dp_rank: int | None) -> Any:
        """Return the load of a device as the stream of KV events carries it."""
        rank = self.engine.engine_core.engine_ranks_managed[0] if dp_rank is None else dp_rank
        load = self._loads_now().get(rank)
        return None if load is None else engine_load_from(self._scheduler_load(rank, load), queued_token_work=True)

    def _scheduler_load(self, rank: int, load: RankLoad) -> Any:
        devices = self.engine.engine_core.devices
        estimate = LoadEstimate(load.waiting_tokens, load.tokens_per_s, load.hit_share)
        fields = scheduler_load_fields(
            load.running,
            load.waiting,
            load.kv_share,
            estimate,
            dp_rank=rank,
            max_total_num_tokens=devices.nodes[rank].device_limits.kv_capacity_tokens,
            max_running_requests=devices.cluster.scenario.max_num_seqs,
        )
        return vllm_engine_pb2.SchedulerLoad(**fields)


class HonouringEngine:
    """The engine, with what the servicer drops on the way to it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @property
    def vllm_config(self) -> Any:
        """vLLM's configuration, of the emulated machine; in an edge of its own process, which has none, the token
        model's."""
        core, config = self._engine.engine_core, self._engine.vllm_config
        return EmulatedConfig(config, core) if isinstance(core, UtilityCalls) else config

    def generate(
        self, prompt: Any, *params_and_id: Any, tokenization_kwargs: dict[str, int] | None = None, **call: Any
    ) -> Any:
        """`AsyncLLM.generate`, with `truncate_prompt_tokens` also for token ids, and `grammar_from_first_token`."""
        if tokenization_kwargs and isinstance(prompt, dict) and "prompt_token_ids" in prompt:
            rules = self._engine.renderer.default_cmpl_tok_params.with_kwargs(**tokenization_kwargs)
            prompt = rules.apply_post_tokenization(self._engine.renderer.tokenizer, dict(prompt))
        if _grammar_at_once.get():
            call["reasoning_ended"] = True
        return self._engine.generate(prompt, *params_and_id, tokenization_kwargs=tokenization_kwargs, **call)

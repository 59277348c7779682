"""vLLM's front end with the emulated devices in the place of its engine core.

`AsyncLLM` renders and tokenizes prompts, detokenizes, finds stop strings and fans out `n`; all of that stays. Only
what it talks to below, its `EngineCoreClient`, is ours: requests go to the dispatcher, tokens come when a device
releases them.
"""

import asyncio
import copy
from collections.abc import Collection, Iterable
from typing import Any

from vllm.config import ParallelConfig, VllmConfig
from vllm.exceptions import VLLMClientError
from vllm.renderers import BaseRenderer, renderer_from_config
from vllm.sampling_params import SamplingParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.input_processor import InputProcessor

from serving.admission_request import AdmissionRequest
from serving.call import Call, Headers, current_call, stamp
from serving.edge import structured_outputs
from serving.edge.delivery.apart_outputs import ApartOutputs
from serving.edge.engine_core import EmulatedCore
from serving.edge.refusals import ENDING, GivenUp
from serving.edge.request_bounds import check_prompt_logprobs, check_request, most_tokens
from serving.edge.turn_queue import TurnQueue
from serving.scenario.scenario import is_bundled


class EmulatedLLM(AsyncLLM):  # type: ignore[misc]
    """An `AsyncLLM` whose engine core is a `EmulatedCore`; vLLM's servers take it as their own."""

    def __init__(self, config: VllmConfig, core: EmulatedCore, renderer: BaseRenderer) -> None:
        """`AsyncLLM.__init__`, but for the engine core process and the token engine's statistics."""
        self.vllm_config = config
        self.model_config = config.model_config
        self.scheduler_config = config.scheduler_config
        self.observability_config = config.observability_config
        self._elastic_ep_lock = asyncio.Lock()
        self.log_requests = False
        self.log_stats = False
        self.renderer = renderer
        self.input_processor = InputProcessor(ranked(config, core.devices.nodes), self.renderer)
        self.admission_stats = None
        self.output_processor = ApartOutputs(
            core.outputs.direct, core.give_up, self.renderer.tokenizer, log_stats=False
        )
        core.unsent.is_wanted = self.output_processor.has_request
        self.engine_core, self.intake = core, core.intake
        self.logger_manager = None
        self._client_count = 1
        self.output_handler: asyncio.Task[None] | None = None
        self._no_profiler()
        self._turns, self._ended = TurnQueue(), False
        self._is_small = is_bundled(config.model_config.model)

    async def abort(self, request_id: str | Iterable[str], internal: bool = False) -> None:
        """Abort requests as `AsyncLLM` does, and count them as aborted; the output handler's own aborts are stop
        strings."""
        # By HTTP anything may be named.
        ids = [id for id in ([request_id] if isinstance(request_id, str) else request_id) if isinstance(id, str)]
        here = self.output_processor.external_req_ids
        if not internal and (elsewhere := [id for id in ids if id not in here]):
            self.engine_core.abort_elsewhere(elsewhere)
        self.abort_here(ids, internal)

    def abort_here(self, ids: Iterable[str], internal: bool = False) -> None:
        """Abort those of some requests that this front end has."""
        self.engine_core.cancel(self.output_processor.abort_requests(ids, internal))

    async def fail_all(self) -> None:
        """End every request with an error while there is still a connection to tell its client, and those that come
        from now on. An abort would look like a whole answer to some, and say nothing to who has no token yet."""
        self._ended = True
        self.engine_core.refuse_all(GivenUp(ENDING))
        self.engine_core.cancel(self.output_processor.fail_all(ENDING))

    async def add_request(self, request_id: str, prompt: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        """Add a request as `AsyncLLM` does, for text generation only; `generate` has checked it."""
        if not isinstance(params, SamplingParams):
            raise VLLMClientError("foreserve emulates text generation only: no pooling, scoring or embedding requests.")
        await self._turns.enter()
        if self._ended:
            raise GivenUp(ENDING)
        if self._is_small and params.structured_outputs is not None:
            params.structured_outputs = await structured_outputs.for_small(params.structured_outputs)
        if params.structured_outputs is not None and isinstance(prompt, dict) and "type" in prompt:
            kwargs["prompt_text"] = prompt.get("prompt")
            prompt = await structured_outputs.process(self, request_id, prompt, params, kwargs)
        return await super().add_request(request_id, prompt, params, *args, **kwargs)

    async def _add_request(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Add a request as `AsyncLLM` does, and forget one whose client left before it was in flight, which `AsyncLLM`
        would keep."""
        try:
            await super()._add_request(request, *args, **kwargs)
        except BaseException:
            await self.abort(request.request_id, internal=True)
            raise

    async def notify_kv_transfer_request_rejected(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: no KV cache is transferred. vLLM submits a request that is aborted already, which no device would
        ever have done with."""

    def generate(self, prompt: Any, sampling_params: SamplingParams, request_id: str, **rest: Any) -> Any:
        """Generate as `AsyncLLM` does, but refuse a request before its response begins.

        Text not tokenized yet (vLLM's gRPC service takes it) is judged once it is.
        """
        if isinstance(sampling_params, SamplingParams):
            check_request(request_id, sampling_params, cache_salt_of(prompt))
            check_prompt_logprobs(most_tokens_of(prompt), sampling_params)
        ids = prompt.get("prompt_token_ids") if isinstance(prompt, dict) else None
        if ids is not None and isinstance(sampling_params, SamplingParams):
            most = most_tokens(sampling_params.max_tokens, len(ids), self.model_config.max_model_len)
            asked = AdmissionRequest(len(ids), most, sampling_params.n, rest.get("data_parallel_rank"))
            self.engine_core.admit(request_id, asked, sampling_params, rest.get("priority", 0))
        outputs = super().generate(prompt, sampling_params, request_id, **rest)
        structured = getattr(sampling_params, "structured_outputs", None) is not None
        return structured_outputs.followed(outputs) if structured else outputs

    def check_admission(self, n: int = 1, request_id: str | None = None) -> None:
        """Raise `Overflow` or `Invalid` if there is no place for `n` sequences, unless one was reserved for
        `request_id`. vLLM calls this before it begins to answer, and for each request that it is about to add."""
        call = current_call()
        if request_id is None or call is None or not call.admitted:
            self.engine_core.check_places(n)

    def stamp(self, headers: Headers = (), route: str = "") -> Call:
        """Make a call that arrives now, not when it is tokenized, the current task's; return it."""
        call = stamp(self.engine_core.clock, headers, route)
        call.at_end.append(lambda: self.engine_core.ended(call))
        return call

    def retry_after_s(self) -> float:
        """Real seconds until a place should be free for a request refused now; at least 1."""
        return float(self.engine_core.retry_after_s())

    def _no_profiler(self) -> None:
        self.profiler = None
        self._frontend_profiler_injected = False
        self._profile_lock = asyncio.Lock()
        self._profile_session_guard_enabled = True
        self._profile_session_active = False


class DeviceRanks:
    """A parallel configuration of vLLM's, with a data-parallel rank for each device, also for those that join."""

    def __init__(self, config: ParallelConfig, devices: Collection[int]) -> None:
        """`devices` are the indices of those that there are."""
        self._config, self._devices = config, devices

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)

    @property
    def data_parallel_size(self) -> int:
        """Ranks that a request may name."""
        return 1 + max(self._devices, default=0)


def ranked(config: VllmConfig, devices: Collection[int]) -> VllmConfig:
    """Return vLLM's configuration as one that lets requests name devices by their ranks."""
    found = copy.copy(config)
    found.parallel_config = DeviceRanks(config.parallel_config, devices)
    return found


def renderer_of(config: VllmConfig) -> BaseRenderer:
    """Return the renderer, which tokenizes prompts and owns the tokenizer."""
    return renderer_from_config(config)


def cache_salt_of(prompt: Any) -> str | None:
    """Return a prompt's `cache_salt`, which keeps its KV cache apart; None without one."""
    return prompt.get("cache_salt") if isinstance(prompt, dict) else None


def most_tokens_of(prompt: Any) -> int:
    """Return the tokens of a prompt; of text not tokenized yet, its number of characters as a bound."""
    if isinstance(prompt, dict):
        return len(prompt.get("prompt_token_ids") or prompt.get("prompt") or ())
    return len(prompt) if isinstance(prompt, str) else 0

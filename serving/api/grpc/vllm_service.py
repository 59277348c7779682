"""The `VllmEngine` service, which routers speak: vLLM's implementation, with the sampling fields that it drops."""

import contextvars
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from smg_grpc_servicer.vllm.servicer import VllmEngineServicer

# Whether the call at hand wants its grammar from the first token: the servicer has no way to hand that on.
_grammar_at_once = contextvars.ContextVar("grammar_at_once", default=False)

NOT_A_GPU = "An emulated device has no profiler and no cache to flush; its steps are in /metrics."


class EngineServicer(VllmEngineServicer):  # type: ignore[misc]
    """smg-grpc-servicer's, as of 0.14.1."""

    def __init__(self, engine: Any, start_time: float) -> None:
        super().__init__(HonouringEngine(engine), start_time)

    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Tokens as they come, or all at the end. Of media even a name is refused: it would be opened, as a file."""
        if request.HasField("mm_inputs") or request.extra_mm_inputs or request.HasField("media_refs"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "foreserve takes text and tokens only: no media.")
        _grammar_at_once.set(request.sampling_params.grammar_from_first_token)
        async for response in super().Generate(request, context):
            yield response

    async def StartProfile(self, request: Any, context: Any) -> None:
        """Refuse: there is no profiler."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, NOT_A_GPU)

    async def StopProfile(self, request: Any, context: Any) -> None:
        """Refuse: there is no profiler."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, NOT_A_GPU)

    async def FlushCache(self, request: Any, context: Any) -> None:
        """Refuse: there is no cache of vLLM's."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, NOT_A_GPU)

    async def GetServerInfo(self, request: Any, context: Any) -> Any:
        """Return the server's identity and its load, which upstream leaves out."""
        info = await super().GetServerInfo(request, context)
        info.server_type = "vllm-grpc"
        info.active_requests = self.engine.get_num_unfinished_requests()
        info.uptime_seconds = time.time() - self.start_time
        return info


class HonouringEngine:
    """The engine, with what the servicer drops on the way to it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

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

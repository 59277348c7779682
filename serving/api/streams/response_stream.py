"""Streams of `/v1/responses`: refused by their status, as any other request, and ended by an event if they fail.

vLLM asks its engine for the first token once the stream has begun, and takes what that raises for a fault of its own.
"""

from collections.abc import AsyncGenerator
from copy import copy
from typing import Any

from openai.types.responses import ResponseErrorEvent
from vllm.entrypoints.serve.exception_handling.error_response import create_error_response
from vllm.exceptions import VLLMError

from serving.api.extension import extend


class BegunTurn:
    """An engine for one response: what it generates first has begun."""

    def __init__(self, engine: Any, first: Any) -> None:
        self._engine, self._first = engine, first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(self, *arguments: Any, **named: Any) -> Any:
        """Return what has begun, and after that what the engine generates."""
        first, self._first = self._first, None
        return self._engine.generate(*arguments, **named) if first is None else first


class JudgedResponses:
    """vLLM's serving object for responses, whose first turn is admitted, or refused, before anything is answered."""

    def _generate_with_builtin_tools(
        self, request_id: str, engine_input: Any, sampling_params: Any, context: Any, tok_params: Any, **named: Any
    ) -> Any:
        """Generate as vLLM does."""
        engine = self.__dict__["engine_client"]
        first = engine.generate(engine_input, sampling_params, f"{request_id}_0", **named)
        own = copy(self)
        own.__dict__["engine_client"] = BegunTurn(engine, first)
        make = super(JudgedResponses, own)._generate_with_builtin_tools  # type: ignore[misc]
        return make(request_id, engine_input, sampling_params, context, tok_params, **named)

    async def responses_stream_generator(self, *arguments: Any, **named: Any) -> AsyncGenerator[Any, None]:
        """Yield events as vLLM does, and one more for what a request fails by."""
        events = 0
        try:
            async for event in super().responses_stream_generator(*arguments, **named):  # type: ignore[misc]
                yield event
                events += 1
        except VLLMError as failure:
            told = create_error_response(failure).error
            yield ResponseErrorEvent(
                type="error", code=told.type, message=told.message, param=told.param, sequence_number=events
            )


def judge_responses(serving: Any) -> None:
    """Have vLLM's server of responses do so."""
    extend(serving, JudgedResponses)

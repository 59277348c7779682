"""Structured outputs: checks a request's grammar off the event loop, and reports one that can't be followed."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from vllm.v1.engine import EngineCoreRequest

from serving.edge.refusals import GivenUp
from serving.edge.request_bounds import OutOfBounds

# What vLLM's input processor is told of a request; the rest is for who adds it.
PROCESSED = ("arrival_time", "lora_request", "tokenization_kwargs", "priority", "data_parallel_rank", "session_id")
UNFOLLOWED = "cannot be followed: the grammar that it makes leaves no token to choose, or cannot be compiled."


async def process(engine: Any, request_id: str, prompt: Any, params: Any, said: dict[str, Any]) -> EngineCoreRequest:
    """Return the request as `AsyncLLM.add_request` takes it, checked in a thread: parsing a schema takes up to half a
    second."""
    told = {name: said[name] for name in PROCESSED if name in said}
    tasks = await engine.get_supported_tasks()
    make = engine.input_processor.process_inputs_async
    request: EngineCoreRequest = await make(request_id, prompt, params, supported_tasks=tasks, **told)
    return request


async def followed(outputs: Any) -> AsyncIterator[Any]:
    """Yield a structured request's outputs. If the token source gives up, blame the grammar: the client's error."""
    async with aclosing(outputs):
        try:
            async for output in outputs:
                yield output
        except GivenUp as error:
            raise OutOfBounds("structured_outputs", UNFOLLOWED) from error

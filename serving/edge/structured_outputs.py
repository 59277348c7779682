"""Structured outputs: checks a request's grammar off the event loop, and reports one that can't be followed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.engine import EngineCoreRequest

from serving.edge.refusals import GivenUp
from serving.edge.request_bounds import MOST_COUNTED, MOST_GRAMMAR_CHARS, OutOfBounds
from serving.edge.schema_size import counted_properties
from serving.token_source.grammars.asked_schemas import SchemaConflict
from serving.token_source.grammars.bounded_grammar import bounded
from serving.token_source.grammars.merged_schema import merged
from serving.token_source.grammars.spaced_grammar import reason_against, spaced

# What vLLM's input processor is told of a request; the rest is for who adds it.
PROCESSED = ("arrival_time", "lora_request", "tokenization_kwargs", "priority", "data_parallel_rank", "session_id")
OF = "(of `response_format` and `tools` as well)"
OR_TAG = "or the structural tag of `structured_outputs`"
MOST_MERGED_CHARS = 4 * MOST_GRAMMAR_CHARS
"""Of schemas with their parts made into one: what stands beside `anyOf` is then in each of its alternatives."""
AS_ONE = "with its parts made into one"
UNFOLLOWED = "cannot be followed: the grammar that it makes leaves no token to choose, or cannot be compiled."


async def for_small(asked: StructuredOutputsParams) -> StructuredOutputsParams:
    """Return structured outputs as a small token model can follow them. Raise OutOfBounds for schemas that contradict
    themselves."""
    try:
        return await asyncio.to_thread(lambda: spaced(bounded(_within(merged(asked)))))
    except SchemaConflict as error:
        raise OutOfBounds("structured_outputs", f"{OF} has a schema that cannot be followed: {error}.") from error


def _within(found: StructuredOutputsParams) -> StructuredOutputsParams:
    """Return structured outputs that are merged. Raise SchemaConflict if they are too large for xgrammar by now."""
    for said in (found.json, found.structural_tag):
        chars = len(said if isinstance(said, str) else json.dumps(said, separators=(",", ":"), ensure_ascii=False))
        if chars > MOST_MERGED_CHARS:
            raise SchemaConflict(f"{AS_ONE} it has {chars} characters, and may have {MOST_MERGED_CHARS}")
        if (counted := counted_properties(said)) > MOST_COUNTED:
            products = "properties, times minProperties or maxProperties"
            raise SchemaConflict(f"{AS_ONE} its {products}, are {counted} in all, and may be {MOST_COUNTED}")
    return found


async def process(engine: Any, request_id: str, prompt: Any, params: Any, said: dict[str, Any]) -> EngineCoreRequest:
    """Return the request as `AsyncLLM.add_request` takes it, checked in a thread: parsing a schema takes up to half a
    second."""
    told = {name: said[name] for name in PROCESSED if name in said}
    tasks = await engine.get_supported_tasks()
    make = engine.input_processor.process_inputs_async
    try:
        request: EngineCoreRequest = await make(request_id, prompt, params, supported_tasks=tasks, **told)
    except VLLMValidationError as error:
        # Of a tag that xgrammar can't follow vLLM tries another backend, and tells of that one's failure.
        asked = params.structured_outputs
        tag = asked.structural_tag if asked else None
        if tag and (why := await asyncio.to_thread(reason_against, tag)):
            raise OutOfBounds("tools", f"{OR_TAG} has a schema that cannot be followed: {why}.") from error
        raise
    return request


async def followed(outputs: Any) -> AsyncIterator[Any]:
    """Yield a structured request's outputs. If it is given up by its own cause, blame the grammar: the client's
    error."""
    async with aclosing(outputs):
        try:
            async for output in outputs:
                yield output
        except GivenUp as error:
            if not error.is_cause:
                raise
            raise OutOfBounds("structured_outputs", UNFOLLOWED) from error

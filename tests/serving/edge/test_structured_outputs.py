"""Does a request that vLLM refuses get vLLM's reason, unless its grammar is what can't be followed?"""

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams, StructuredOutputsParams

from serving.edge.refusals import ENDING, GivenUp
from serving.edge.request_bounds import OutOfBounds, check_request
from serving.edge.structured_outputs import followed, for_small, process
from serving.types import FAILED_ON


def tag_of(kind: str) -> StructuredOutputsParams:
    schema = {"type": "json_schema", "json_schema": {"type": kind}}
    return StructuredOutputsParams(structural_tag=json.dumps({"type": "structural_tag", "format": schema}))


def refused(params: SamplingParams) -> Exception:
    async def tasks() -> tuple[str, ...]:
        return ("generate",)

    async def refuse(*_: Any, **__: Any) -> NoReturn:
        raise VLLMValidationError("Token id 999999 is out of vocabulary")

    engine = SimpleNamespace(get_supported_tasks=tasks, input_processor=SimpleNamespace(process_inputs_async=refuse))
    with pytest.raises((VLLMValidationError, OutOfBounds)) as caught:
        asyncio.run(process(engine, "a", None, params, {}))
    return caught.value


@pytest.mark.parametrize("asked", [None, StructuredOutputsParams(regex="a+"), StructuredOutputsParams(json={})])
def test_what_has_no_tag_is_refused_as_vllm_does(asked: StructuredOutputsParams | None) -> None:
    assert "out of vocabulary" in str(refused(SamplingParams(structured_outputs=asked)))


def test_a_tag_that_cannot_be_followed_is_the_reason_and_another_is_not() -> None:
    error = refused(SamplingParams(structured_outputs=tag_of("float")))
    assert isinstance(error, OutOfBounds) and "has a schema that cannot be followed" in str(error)
    assert "out of vocabulary" in str(refused(SamplingParams(structured_outputs=tag_of("integer"))))


CONTRADICTION = {"allOf": [{"type": "string"}, {"type": "integer"}]}
TAG = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": CONTRADICTION}}


@pytest.mark.parametrize("asked", [{"json": CONTRADICTION}, {"structural_tag": json.dumps(TAG)}], ids=["json", "tag"])
def test_a_schema_that_contradicts_itself_is_refused_with_what_does(asked: dict[str, Any]) -> None:
    with pytest.raises(OutOfBounds, match=r"`structured_outputs` \(of .*different `type`: string and integer\."):
        asyncio.run(for_small(StructuredOutputsParams(**asked)))


def _repeated(base: dict[str, Any], times: int) -> dict[str, Any]:
    """Return a schema that has `base` in each of its alternatives, once its parts are made into one."""
    return base | {"anyOf": [{"minProperties": n} for n in range(times)]}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (_repeated({"properties": {str(i): {} for i in range(200)}, "maxProperties": 20}, 9), "times minProperties"),
        (_repeated({"enum": [{"a": "b" * 2000}]}, 100), "characters"),
        (_repeated({"properties": {str(i): {} for i in range(200)}}, 1000), "more than 65536 entries"),
    ],
)
def test_a_schema_that_is_bounded_as_it_is_written_is_bounded_as_it_is_merged(schema: dict[str, Any], why: str) -> None:
    check_request("a", SamplingParams(structured_outputs=StructuredOutputsParams(json=schema)))
    with pytest.raises(OutOfBounds, match=why):
        asyncio.run(for_small(StructuredOutputsParams(json=schema)))


def test_parts_of_a_schema_are_followed_together() -> None:
    parts = [{"type": "object", "required": [name], "properties": {name: {"type": "boolean"}}} for name in ("a", "b")]
    grammar = asyncio.run(for_small(StructuredOutputsParams(json={"allOf": parts}))).grammar
    assert '\\"a\\"' in grammar and '\\"b\\"' in grammar and "basic_array" not in grammar.split("root ::=")[1]


@pytest.mark.parametrize(
    ("why", "raised"),
    [(None, OutOfBounds), (f"{FAILED_ON} (ValueError: no).", OutOfBounds), (ENDING, GivenUp)],
)
def test_a_grammar_is_blamed_for_what_it_caused_alone(why: str | None, raised: type[Exception]) -> None:
    async def given_up() -> AsyncIterator[str]:
        yield "a"
        raise GivenUp(why)

    async def read() -> list[str]:
        return [each async for each in followed(given_up())]

    with pytest.raises(raised):
        asyncio.run(read())

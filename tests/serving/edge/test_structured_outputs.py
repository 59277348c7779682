"""Does a request that vLLM refuses get vLLM's reason, unless its grammar is what can't be followed?"""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams, StructuredOutputsParams

from serving.edge.request_bounds import OutOfBounds
from serving.edge.structured_outputs import process


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

"""What of a request may reach the token source, and what is refused with the name of the field."""

import json
from typing import Any

import pytest
from vllm.sampling_params import RepetitionDetectionParams, SamplingParams, StructuredOutputsParams

from serving.admission.request_options import FIELDS
from serving.edge.request_bounds import (
    OutOfBounds,
    check_request,
    unencodable,
)
from serving.token_source.forced_replay import KNOWN_TOKENS

HALF = "\ud800"
# Of which xgrammar makes 2.8 MB, and compiles them for a minute.
COUNTED = {"type": "object", "minProperties": 200, "maxProperties": 300, "properties": {str(i): {} for i in range(300)}}
COUNTED_IN_FLOATS = COUNTED | {"minProperties": 200.0, "maxProperties": 300.0}
BELOW_0 = COUNTED | {"minProperties": -400, "maxProperties": -300}


def refusal(request_id: str = "a", salt: str | None = None, **params: Any) -> OutOfBounds:
    with pytest.raises(OutOfBounds) as caught:
        check_request(request_id, SamplingParams(**params), salt)
    return caught.value


def test_what_clients_usually_ask_for_is_taken() -> None:
    check_request("a" * 256, SamplingParams(), "salt")
    check_request(
        "é-😀",
        SamplingParams(
            stop=["\n\n", "😀"],
            bad_words=["no"],
            logit_bias={1: 2.0},
            extra_args=dict.fromkeys(FIELDS, "x"),
            structured_outputs=StructuredOutputsParams(
                json={"type": "object", "maxProperties": 10**9, "properties": {str(i): {} for i in range(64)}}
            ),
        ),
    )
    largest = StructuredOutputsParams(json={"enum": [2**64 - 1, -(2**63), True]})
    check_request("a", SamplingParams(structured_outputs=largest))


def test_keys_of_our_own_cannot_come_from_a_client() -> None:
    error = refusal(extra_args={KNOWN_TOKENS: [1, 2]})
    assert error.parameter == "vllm_xargs"
    assert KNOWN_TOKENS in str(error) and all(name in str(error) for name in FIELDS)
    assert "topic" in str(refusal(extra_args={"kv_transfer_params": {}}))


@pytest.mark.parametrize(
    ("field", "params"),
    [
        ("request_id", {"request_id": HALF}),
        ("logit_bias", {"logit_bias": {1: 2.0, 3: float("nan")}}),
        ("request_id", {"request_id": "a" * 257}),
        ("cache_salt", {"salt": HALF}),
        ("cache_salt", {"salt": "a" * 1025}),
        ("stop.1", {"stop": ["a", HALF]}),
        ("stop.0", {"stop": ["a" * 1025]}),
        ("stop", {"stop": [str(i) for i in range(65)]}),
        ("stop_token_ids", {"stop_token_ids": list(range(1025))}),
        ("bad_words.0", {"bad_words": [HALF]}),
        ("bad_words", {"bad_words": [str(i) for i in range(129)]}),
        ("logit_bias", {"logit_bias": {i: 1.0 for i in range(1025)}}),
        ("allowed_token_ids", {"allowed_token_ids": [1] * (2**17 + 1)}),
        ("vllm_xargs.slo", {"extra_args": {"slo": HALF}}),
        ("vllm_xargs.topic", {"extra_args": {"topic": "a" * 257}}),
        ("vllm_xargs", {"extra_args": {HALF: 1}}),
        ("repetition_penalty", {"repetition_penalty": 1e-30}),
        ("repetition_penalty", {"repetition_penalty": 1e30}),
        ("top_k", {"top_k": 10**30}),
        ("max_tokens", {"max_tokens": 2**31}),
        ("stream_interval", {"stream_interval": 2**31}),
        (
            "repetition_detection.max_pattern_size",
            {"repetition_detection": RepetitionDetectionParams(max_pattern_size=10**9, min_count=2)},
        ),
        ("structured_outputs.regex", {"structured_outputs": StructuredOutputsParams(regex=HALF)}),
        ("structured_outputs.choice.1", {"structured_outputs": StructuredOutputsParams(choice=["a", HALF])}),
        ("structured_outputs.json", {"structured_outputs": StructuredOutputsParams(json={"default": [2**64]})}),
        ("structured_outputs", {"structured_outputs": StructuredOutputsParams(json=COUNTED)}),
        ("structured_outputs", {"structured_outputs": StructuredOutputsParams(json=json.dumps({"items": [COUNTED]}))}),
        ("structured_outputs", {"structured_outputs": StructuredOutputsParams(structural_tag=json.dumps(COUNTED))}),
        ("structured_outputs", {"structured_outputs": StructuredOutputsParams(json=COUNTED_IN_FLOATS)}),
        ("structured_outputs", {"structured_outputs": StructuredOutputsParams(json={"anyOf": [COUNTED, BELOW_0]})}),
        ("structured_outputs.json.enum.0", {"structured_outputs": StructuredOutputsParams(json={"enum": [HALF]})}),
    ],
)
def test_what_could_hurt_is_refused_by_name(field: str, params: dict[str, Any]) -> None:
    error = refusal(**params)
    assert error.parameter == field
    str(error).encode()


def test_text_is_found_wherever_it_stands() -> None:
    assert unencodable({"a": [1, {"b": "ok"}, None]}) is None
    assert unencodable({"a": [1, {"b": HALF}]}) == ["a", "1", "b"]
    assert unencodable({"a": {HALF: 1}}) == ["a", "\\ud800"]
    deep: Any = HALF
    for _ in range(100_000):
        deep = [deep]
    assert unencodable(deep) is not None

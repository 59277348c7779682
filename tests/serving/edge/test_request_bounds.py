"""What of a request may reach the token source, and what is refused with the name of the field."""

import json
from typing import Any

import pytest
from vllm.sampling_params import RepetitionDetectionParams, SamplingParams, StructuredOutputsParams

from serving.admission.request_options import FIELDS
from serving.edge.request_bounds import (
    MOST_BEAM_TOKENS,
    MOST_CONVERSATIONS,
    OutOfBounds,
    check_body,
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


@pytest.mark.parametrize(
    "body",
    [{}, {"max_tokens": MOST_BEAM_TOKENS + 1}, {"max_tokens": "all"}, {"max_tokens": 2000, "max_completion_tokens": 1}],
)
def test_a_beam_is_short(body: dict[str, Any]) -> None:
    with pytest.raises(OutOfBounds, match="use_beam_search"):
        check_body(body | {"use_beam_search": True}, 64)
    check_body(body | {"use_beam_search": False}, 64)
    check_body({"use_beam_search": True, "max_completion_tokens": MOST_BEAM_TOKENS}, 64)


@pytest.mark.parametrize("body", [[], "a", 3, None, True, [{"messages": []}]])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    with pytest.raises(OutOfBounds, match="it must be an object"):
        check_body(body, 64)


def test_a_batch_has_fewer_conversations_than_one_has_messages_and_no_more_than_the_queue_has_places() -> None:
    message = {"role": "user", "content": "a"}
    check_body({"messages": [message] * (MOST_CONVERSATIONS + 1)}, 64)
    for places, most in ((2048, MOST_CONVERSATIONS), (3, 3)):
        check_body({"messages": [[message]] * most}, places)
        with pytest.raises(OutOfBounds, match=f"`messages` has {most + 1} entries, and may have {most}"):
            check_body({"messages": [[message]] * (most + 1)}, places)


@pytest.mark.parametrize(("field", "entry"), [("prompt", "a"), ("messages", [{"role": "user", "content": "a"}])])
def test_prompts_have_no_more_answers_together_than_the_queue_has_places(field: str, entry: object) -> None:
    check_body({field: [entry] * 3, "n": 4}, 12)
    check_body({field: [entry] * 3, "n": "four"}, 12)
    for five in (5, "5", 5.0):
        with pytest.raises(OutOfBounds, match=f"`n` is 5 for each of 3 entries of `{field}`: together they may be 12"):
            check_body({field: [entry] * 3, "n": five}, 12)

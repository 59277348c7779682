import json
import math

import pytest
from google.protobuf import json_format

from serving.api.grpc.codec import NotFinite, TooMany, event_json, reply, request_json
from serving.api.guards.json_text import BadJson, most_values, parse
from serving.api.pb.foreserve.v1 import openai_pb2 as pb

MOST = most_values(4096)
CHAT = {
    "model": "m",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "7"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "minProperties": 2}}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"maxLength": 3}}},
    "stop": ["a", "b"],
    "seed": 42,
    "temperature": 0.0,
    "logprobs": False,
    "logit_bias": {"17": -100},
    "stop_token_ids": [1, 2],
    "stream_options": {"include_usage": True},
    "chat_template_kwargs": {"enable_thinking": False},
    "metadata": {"a": "b"},
}


def prompt_of(tokens):
    return pb.CompletionRequest(model="m", prompt={"list_value": {"values": [{"number_value": 5}] * tokens}})


def test_a_request_parsed_from_openai_json_becomes_the_same_json():
    assert request_json(json_format.ParseDict(CHAT, pb.ChatCompletionRequest()), MOST) == CHAT


def test_protobuf_itself_writes_a_request_as_openai_json():
    message = json_format.ParseDict(CHAT, pb.ChatCompletionRequest())
    assert json_format.MessageToDict(message) == CHAT


@pytest.mark.parametrize("prompt", ["text", ["a", "b"], [1, 2, 3], [[1], [2, 3]]])
def test_prompts_of_every_kind_keep_their_types(prompt):
    fields = request_json(json_format.ParseDict({"prompt": prompt}, pb.CompletionRequest()), MOST)
    assert fields == {"prompt": prompt}
    assert "." not in str(fields)  # 3.0 equals 3, but is no token id.


def test_zero_and_false_are_not_absence():
    fields = {"temperature": 0.0, "echo": False, "max_tokens": 0, "suffix": ""}
    assert request_json(pb.CompletionRequest(**fields), MOST) == fields
    assert request_json(pb.CompletionRequest(), MOST) == {}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_refused_by_field(number):
    with pytest.raises(NotFinite, match="`logit_bias`"):
        request_json(pb.CompletionRequest(logit_bias={"1": number}), MOST)
    with pytest.raises(NotFinite, match="`stop`"):
        request_json(pb.CompletionRequest(stop={"number_value": number}), MOST)


def test_a_chunk_becomes_a_message_and_its_nulls_stay_absent():
    event = 'data: {"id":"x","choices":[{"index":0,"text":"hi","logprobs":null,"finish_reason":null}],"usage":null}\n\n'
    chunk = reply(pb.Completion, event_json(event))
    assert (chunk.id, chunk.choices[0].text) == ("x", "hi")
    assert not chunk.HasField("usage") and not chunk.choices[0].HasField("finish_reason")


@pytest.mark.parametrize("reason", ["END", 17])
def test_a_stop_reason_may_be_a_string_or_a_token(reason):
    chunk = reply(pb.Completion, {"choices": [{"index": 0, "text": "", "stop_reason": reason}]})
    assert json_format.MessageToDict(chunk.choices[0].stop_reason) == reason


def test_lists_with_nulls_and_fields_that_we_lack():
    logprobs = {"tokens": ["a"], "token_logprobs": [None, -0.5], "top_logprobs": [None, {"a": -0.5}]}
    made = reply(pb.Completion, {"choices": [{"index": 0, "logprobs": logprobs}], "of_tomorrow": 1})
    assert json_format.MessageToDict(made)["choices"][0]["logprobs"] == logprobs


def test_the_end_of_a_stream():
    assert event_json("data: [DONE]\n\n") is None


def test_more_values_than_a_message_may_have_are_not_even_read():
    few, many = prompt_of(20), prompt_of(100)
    assert len(request_json(few, 100)["prompt"]) == 20
    with pytest.raises(TooMany, match="may have 100 values") as caught:
        request_json(many, 100)
    assert caught.value.field == "prompt"


@pytest.mark.parametrize(("context", "refused"), [(4096, 70_000), (200_000, 400_000)])
def test_a_message_may_have_as_many_values_as_a_body_over_http(context, refused):
    most = most_values(context)
    for tokens in (min(context, refused) - 1, refused):
        body, message = json.dumps({"prompt": [5] * tokens}), prompt_of(tokens)
        if tokens < refused:
            assert request_json(message, most)["prompt"] == parse(body.encode(), most)["prompt"]
            continue
        with pytest.raises(TooMany):
            request_json(message, most)
        with pytest.raises(BadJson, match="commas"):
            parse(body.encode(), most)

"""Answers of many log probabilities: are they the ones that vLLM would have made, with nobody waiting for them?"""

import asyncio
import json
from typing import Any

import httpx
import pytest
from openai.types.responses import ResponseReasoningItem
from vllm.entrypoints.openai.chat_completion.protocol import (
    ChatCompletionLogProb,
    ChatCompletionLogProbs,
    ChatCompletionLogProbsContent,
    ChatCompletionResponse,
    ChatCompletionResponseChoice,
    ChatMessage,
)
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest, ResponsesResponse
from vllm.entrypoints.serve.engine.protocol import UsageInfo
from vllm.sampling_params import SamplingParams

from serving.api.large_answers import LARGE, Response, pieces_of, written
from serving.process.server_process import ServerProcess
from tests.conftest import MODEL

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "Of a “law”"}], "logprobs": True, "top_logprobs": 20},
    COMPLETION: {"prompt": "Of a “law”", "logprobs": 20},
}


def answer_of(choices: int) -> ChatCompletionResponse:
    probability = ChatCompletionLogProb(token="“é", logprob=-0.00001234, bytes=list("“é".encode()))
    content = [ChatCompletionLogProbsContent(token="a", logprob=-9999.0, bytes=[97], top_logprobs=[probability] * 2)]
    return ChatCompletionResponse(
        model="m",
        choices=[
            ChatCompletionResponseChoice(
                index=index,
                message=ChatMessage(role="assistant", content='"choices":[] \\ “\n'),
                logprobs=ChatCompletionLogProbs(content=content * 3),
            )
            for index in range(choices)
        ],
        usage=UsageInfo(),
    )


@pytest.mark.parametrize("choices", [0, 1, 3])
def test_its_pieces_are_the_json_of_the_whole(choices: int) -> None:
    answer = answer_of(choices)
    assert json.loads(b"".join(pieces_of(answer))) == answer.model_dump()


def test_a_response_of_thoughts_alone_is_written_too() -> None:
    thought = ResponseReasoningItem(id="r", summary=[], type="reasoning")
    asked = ResponsesRequest(input="Hi")
    sizes = {"model_name": "m", "created_time": 1, "status": "completed", "usage": None}
    answer = ResponsesResponse.from_request(asked, SamplingParams(max_tokens=9), output=[thought], **sizes)
    whole = answer.model_dump(mode="json", by_alias=True)
    assert json.loads(b"".join(written(answer).model_dump())) == whole


@pytest.mark.parametrize("content", [{"a": [1, "é"]}, pieces_of(answer_of(2))])
def test_a_response_sends_all_of_it_once(content: Any) -> None:
    sent = list[dict[str, Any]]()

    async def send(message: Any) -> None:
        sent.append(message)

    response = Response(content, status_code=201, headers={"x-more": "1"})
    asyncio.run(response({"type": "http"}, None, send))
    head, *parts = sent
    body = b"".join(part["body"] for part in parts)
    headers = dict(head["headers"])
    assert head["status"] == 201 and headers[b"content-length"] == str(len(body)).encode()
    assert headers[b"content-type"] == b"application/json" and headers[b"x-more"] == b"1"
    assert [part.get("more_body", False) for part in parts] == [True] * (len(parts) - 1) + [False]
    assert json.loads(body) == (content if isinstance(content, dict) else json.loads(b"".join(content)))


@pytest.mark.parametrize("path", ASKED)
def test_a_large_answer_has_what_small_ones_have(emulator: ServerProcess, path: str) -> None:
    asked = {"model": MODEL, "seed": 5, "ignore_eos": True, **ASKED[path]}
    small, large = (
        httpx.post(emulator.http_url + path, json=asked | {"max_tokens": tokens}, timeout=60) for tokens in (6, 40)
    )
    assert small.status_code == large.status_code == 200
    assert 6 * 21 < LARGE < 40 * 21
    few, many = (answer.json() for answer in (small, large))
    assert many.keys() == few.keys() and many["usage"]["completion_tokens"] == 40
    (one,), (other,) = few["choices"], many["choices"]
    assert one.keys() == other.keys()
    if path == CHAT:
        assert other["logprobs"]["content"][:6] == one["logprobs"]["content"]
        assert len(other["logprobs"]["content"]) == 40
    else:
        assert {name: said[:6] for name, said in other["logprobs"].items()} == one["logprobs"]
    assert {**large.headers, "content-length": "", "date": ""}.keys() == small.headers.keys()


def test_a_large_response_has_what_a_small_one_has(emulator: ServerProcess) -> None:
    asked = {"model": MODEL, "input": "Hi", "temperature": 0, "include": ["message.output_text.logprobs"]}
    few, many = (
        httpx.post(
            f"{emulator.http_url}/v1/responses",
            json=asked | {"max_output_tokens": tokens, "top_logprobs": 20},
            timeout=60,
        ).json()
        for tokens in (6, 40)
    )
    assert many.keys() == few.keys() and few["usage"]["output_tokens"] * 21 < LARGE
    assert many["usage"]["output_tokens"] * 21 > LARGE
    (one,), (other,) = few["output"][0]["content"], many["output"][0]["content"]
    assert one.keys() == other.keys() and other["text"].startswith(one["text"])
    assert other["logprobs"][:6] == one["logprobs"]
    assert len(other["logprobs"]) == many["usage"]["output_tokens"]


def test_many_choices_come_whole(emulator: ServerProcess) -> None:
    asked = {"model": MODEL, "prompt": ["a", "b", "c"], "n": 2, "max_tokens": 9, "logprobs": 20, "seed": 1}
    answer = httpx.post(emulator.http_url + COMPLETION, json=asked, timeout=60).json()
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    alone = httpx.post(emulator.http_url + COMPLETION, json=asked | {"prompt": "b", "n": 1}, timeout=60).json()
    assert alone["choices"][0]["text"] == answer["choices"][2]["text"]


def test_a_large_batch_has_the_answers_that_its_conversations_get_alone(emulator: ServerProcess) -> None:
    conversations = [[{"role": "user", "content": word}] for word in ("Law", "Rain", "Sums")]
    asked = {"model": MODEL, "max_tokens": 12, "logprobs": True, "top_logprobs": 20, "temperature": 0}
    answer = httpx.post(f"{emulator.http_url}{CHAT}/batch", json=asked | {"messages": conversations}, timeout=60)
    assert answer.status_code == 200, answer.text
    batch = answer.json()
    assert [choice["index"] for choice in batch["choices"]] == [0, 1, 2]
    assert batch["usage"]["completion_tokens"] * 21 > LARGE
    for conversation, choice in zip(conversations, batch["choices"], strict=True):
        alone = httpx.post(emulator.http_url + CHAT, json=asked | {"messages": conversation}, timeout=60).json()
        assert choice["message"]["content"] == alone["choices"][0]["message"]["content"]


def test_a_batch_may_name_an_slo_class_as_a_request_does(emulator: ServerProcess) -> None:
    asked = {"model": MODEL, "max_tokens": 1, "messages": [[{"role": "user", "content": "Hi"}]], "slo": "unheard of"}
    refused = httpx.post(f"{emulator.http_url}{CHAT}/batch", json=asked, timeout=60)
    assert refused.status_code == 400 and "unheard of" in refused.text


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/responses", {"input": "Hi", "max_output_tokens": 16}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 16}),
    ],
)
def test_a_response_or_a_message_may_name_an_slo_class_in_its_body(
    emulator: ServerProcess, path: str, asked: dict[str, object]
) -> None:
    said = {"model": MODEL, **asked}
    refused = httpx.post(f"{emulator.http_url}{path}", json=said | {"slo": "unheard of"}, timeout=60)
    assert refused.status_code == 400 and "unheard of" in refused.text
    assert httpx.post(f"{emulator.http_url}{path}", json=said | {"slo": "batch"}, timeout=60).status_code == 200


def test_a_streamed_response_is_refused_by_its_status(emulator: ServerProcess) -> None:
    asked = {"model": MODEL, "input": "Hi", "max_output_tokens": 16, "stream": True}
    refused = httpx.post(f"{emulator.http_url}/v1/responses", json=asked | {"slo": "unheard of"}, timeout=60)
    assert refused.status_code == 400 and "unheard of" in refused.json()["error"]["message"]
    answer = httpx.post(f"{emulator.http_url}/v1/responses", json=asked | {"slo": "batch"}, timeout=60)
    events = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert answer.status_code == 200 and events[0] == "response.created" and events[-1] == "response.completed"

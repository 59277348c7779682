"""One client's request, whatever it says, over HTTP and gRPC: refused by the name of the field."""

import json
import time
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import json_format
from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc

from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from serving.process.server_process import ServerProcess
from serving.token_source.forced_replay import KNOWN_TOKENS
from tests.conftest import CONTEXT, MODEL

HALF = "\ud800"
CHAT: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
TEXT: dict[str, Any] = {"model": MODEL, "prompt": "Hi", "max_tokens": 2}
ROUTES = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": TEXT,
    "/v1/responses": {"model": MODEL, "input": "Hi", "max_output_tokens": 2},
    "/v1/messages": CHAT,
    "/v1/chat/completions/batch": CHAT | {"messages": [CHAT["messages"]]},
    "/invocations": TEXT,
    "/tokenize": TEXT,
}


def refusal(emulator: ServerProcess, path: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    sent = json.dumps(body).encode()
    headers = {"content-type": "application/json"} | headers
    answer = httpx.post(emulator.http_url + path, content=sent, headers=headers, timeout=60)
    assert answer.status_code == 400, answer.text
    return dict(answer.json()["error"])


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("field", ["request_id", "model", "user", "cache_salt", "unheard_of"])
def test_half_a_character_is_refused_on_each_route(emulator: ServerProcess, path: str, field: str) -> None:
    error = refusal(emulator, path, ROUTES[path] | {field: f"a{HALF}"})
    assert error["param"] == field and "surrogate" in error["message"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/invocations"])
def test_keys_of_our_own_cannot_come_from_a_client(emulator: ServerProcess, path: str) -> None:
    for args in ({KNOWN_TOKENS: [99_999_999, 1]}, {KNOWN_TOKENS: "1"}):
        message = refusal(emulator, path, ROUTES[path] | {"vllm_xargs": args})["message"]
        assert KNOWN_TOKENS in message
    assert "slo, ttft_ms, tpot_ms, priority, topic" in message


def test_what_would_be_answered_with_too_many_tokens_is_too_large(emulator: ServerProcess) -> None:
    body = TEXT | {"prompt": "1" * (160 << 10)}
    for path in ("/tokenize", "/v1/completions/render"):
        answer = httpx.post(f"{emulator.http_url}{path}", json=body, timeout=60)
        assert answer.status_code == 413 and path in answer.json()["error"]["message"]


def test_a_body_over_which_one_of_many_validators_stumbles_is_refused_by_invocations(emulator: ServerProcess) -> None:
    chosen = {"type": "function", "function": {"name": "f"}}
    body = CHAT | {"tools": [{"type": "function", "function": {}}], "tool_choice": chosen}
    assert "prompt" in refusal(emulator, "/invocations", body)["message"], "as completions take it"


def test_prompts_to_score_are_bounded_all_together(emulator: ServerProcess) -> None:
    body = {"model": MODEL, "query": "w " * 2000, "items": ["a"] * 128, "label_token_ids": [5, 6]}
    assert refusal(emulator, "/generative_scoring", body)["param"] == "items"
    body |= {"query": "w " * 20}
    answer = httpx.post(f"{emulator.http_url}/generative_scoring", json=body | {"items": ["a"] * 8}, timeout=60)
    assert answer.status_code == 200 and len(answer.json()["data"]) == 8


def test_transfers_of_kv_are_refused(emulator: ServerProcess) -> None:
    for field in ("kv_transfer_params", "ec_transfer_params"):
        assert field in refusal(emulator, "/v1/completions", TEXT | {field: {"do_remote_prefill": True}})["message"]


@pytest.mark.parametrize("value", [1, "x", [], True, 0.5])
@pytest.mark.parametrize("field", ["structured_outputs", "response_format", "stream_options"])
def test_objects_of_another_type_are_no_internal_error(emulator: ServerProcess, field: str, value: Any) -> None:
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)):
        assert refusal(emulator, path, body | {field: value})["param"] == field


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("/v1/completions", "stop", [str(i) for i in range(65)]),
        ("/v1/completions", "stop", ["a" * 1025]),
        ("/v1/completions", "logit_bias", {str(i): 1 for i in range(1025)}),
        ("/v1/completions", "logit_bias", {"-1": 1}),
        ("/v1/completions", "logit_bias", {"999999": 1}),
        ("/v1/completions", "allowed_token_ids", [-1]),
        ("/v1/completions", "allowed_token_ids", [999_999]),
        ("/v1/completions", "stop_token_ids", [99_999_999]),
        ("/v1/completions", "prompt", ["a"] * 65),
        ("/v1/completions", "prompt", [[1]] * 65),
        ("/v1/completions", "bad_words", [str(i) for i in range(129)]),
        ("/v1/completions", "n", 65),
        ("/v1/completions", "top_k", 10**30),
        ("/v1/completions", "repetition_penalty", 1e-38),
        ("/v1/completions", "request_id", "a" * 300),
        ("/v1/completions", "structured_outputs", {"json": {"$ref": "#"}}),
        ("/v1/completions", "structured_outputs", {"choice": [f"value {i}" for i in range(3000)]}),
        ("/v1/completions", "prompt_logprobs", 20),
        ("/v1/responses", "input", [{"nothing": []}] * 500),
        ("/v1/responses", "input", [{"role": "user", "content": [{}] * 100}]),
        ("/v1/chat/completions", "messages", CHAT["messages"] * 1025),
        ("/v1/chat/completions", "tools", [{"type": "function", "function": {"name": "f"}}] * 129),
        ("/v1/chat/completions", "chat_template_kwargs", {str(i): 1 for i in range(65)}),
        ("/v1/chat/completions", "chat_template", "{% for i in range(10**9) %}{% endfor %}"),
    ],
)
def test_what_would_stall_or_end_others_is_refused(emulator: ServerProcess, path: str, field: str, value: Any) -> None:
    longer = {"prompt": "words " * 500} if field == "prompt_logprobs" else {}
    error = refusal(emulator, path, ROUTES[path] | longer | {field: value})
    assert field.replace("_", " ") in f"{error['param']} {error['message']}".lower().replace("_", " ")


def test_a_header_that_names_a_request_is_bounded(emulator: ServerProcess) -> None:
    assert "request_id" in refusal(emulator, "/v1/completions", TEXT, **{"x-request-id": "a" * 300})["message"]


def test_the_same_over_grpc(emulator: ServerProcess) -> None:
    with grpc.insecure_channel(emulator.grpc_url.removeprefix("grpc://")) as channel:
        complete = openai_pb2_grpc.OpenAIStub(channel).CreateCompletion  # type: ignore[no-untyped-call]
        for fields in (
            {"vllm_xargs": {KNOWN_TOKENS: "1"}},
            {"request_id": "a" * 300},
            {"stop": [str(i) for i in range(65)]},
            {"prompt": ["a"] * 65},
        ):
            with pytest.raises(grpc.RpcError) as caught:
                complete(json_format.ParseDict(TEXT | fields, pb.CompletionRequest()))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, caught.value.details()
            name = next(iter(fields))
            assert name in caught.value.details()


def test_the_same_over_vllms_service(emulator: ServerProcess) -> None:
    with grpc.insecure_channel(emulator.grpc_url.removeprefix("grpc://")) as channel:
        generate = vllm_engine_pb2_grpc.VllmEngineStub(channel).Generate
        for name, asked in {
            "request_id": vllm_engine_pb2.GenerateRequest(request_id="a" * 300, text="Hi"),
            "stop": vllm_engine_pb2.GenerateRequest(
                request_id="a", text="Hi", sampling_params={"stop_token_ids": range(1025)}
            ),
            "Token id": vllm_engine_pb2.GenerateRequest(request_id="b", tokenized={"input_ids": [99_999_999]}),
        }.items():
            with pytest.raises(grpc.RpcError) as caught:
                list(generate(asked))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, caught.value.details()
            assert name in caught.value.details()


def running(emulator: ServerProcess) -> float:
    lines = httpx.get(f"{emulator.http_url}/metrics", timeout=60).text.splitlines()
    wanted = "vllm:num_requests_running{", "vllm:num_requests_waiting{"
    return sum(float(line.split()[-1]) for line in lines if line.startswith(wanted))


def test_a_transfer_of_kv_is_refused_over_vllms_service_and_leaves_nothing_in_flight(emulator: ServerProcess) -> None:
    with grpc.insecure_channel(emulator.grpc_url.removeprefix("grpc://")) as channel:
        generate = vllm_engine_pb2_grpc.VllmEngineStub(channel).Generate
        for number in range(3):
            asked = vllm_engine_pb2.GenerateRequest(
                request_id=f"kv-{number}",
                tokenized={"input_ids": [1]},
                kv_transfer_params_json='{"do_remote_prefill": true}',
            )
            with pytest.raises(grpc.RpcError) as caught:
                list(generate(asked, timeout=60))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, caught.value.details()
    deadline_s = time.monotonic() + 60
    while running(emulator):
        assert time.monotonic() < deadline_s, "a request that nobody waits for is in flight"
        time.sleep(0.1)
    time.sleep(0.5)
    assert not running(emulator)


def test_no_more_tokens_are_asked_for_than_the_context_has(emulator: ServerProcess) -> None:
    def most() -> float:
        lines = httpx.get(f"{emulator.http_url}/metrics", timeout=60).text.splitlines()
        name = "vllm:request_params_max_tokens_sum"
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    before = most()
    sampling = {"max_tokens": 10**6, "stop_token_ids": list(range(1000))}
    with grpc.insecure_channel(emulator.grpc_url.removeprefix("grpc://")) as channel:
        generate = vllm_engine_pb2_grpc.VllmEngineStub(channel).Generate
        for prompt in ({"tokenized": {"input_ids": [1, 2, 3]}}, {"text": "Hi"}):
            asked = vllm_engine_pb2.GenerateRequest(request_id=str(prompt), sampling_params=sampling, **prompt)
            assert list(generate(asked, timeout=120))
    assert 2 * (CONTEXT - 10) < most() - before < 2 * CONTEXT


def test_a_stream_that_names_a_device_that_is_not_there_is_refused_before_it_begins(emulator: ServerProcess) -> None:
    asked = CHAT | {"stream": True}
    message = refusal(emulator, "/v1/chat/completions", asked, **{"x-data-parallel-rank": "77"})["message"]
    assert "77" in message


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_conversation_without_a_message_is_no_internal_error_though_it_has_tools(
    emulator: ServerProcess, path: str
) -> None:
    chat = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    tool = {"name": "f", "input_schema": {"type": "object"}} if path == "/v1/messages" else chat
    refusal(emulator, path, CHAT | {"messages": [], "tools": [tool]})


def test_media_are_refused_and_no_file_of_theirs_is_opened(emulator: ServerProcess) -> None:
    with grpc.insecure_channel(emulator.grpc_url.removeprefix("grpc://")) as channel:
        engine = vllm_engine_pb2_grpc.VllmEngineStub(channel)
        asked = {"request_id": "a", "tokenized": {"input_ids": [1, 2]}, "sampling_params": {"max_tokens": 1}}
        for media in ({"mm_inputs": {}}, {"extra_mm_inputs": [{}]}, {"media_refs": {}}):
            with pytest.raises(grpc.RpcError) as caught:
                list(engine.Generate(vllm_engine_pb2.GenerateRequest(**asked, **media)))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT and "media" in caught.value.details()


@pytest.mark.parametrize("method", ["StartProfile", "StopProfile"])
def test_what_an_emulator_has_not_is_no_internal_error(emulator: ServerProcess, method: str) -> None:
    with grpc.insecure_channel(emulator.grpc_url.removeprefix("grpc://")) as channel:
        call = channel.unary_unary(f"/vllm.grpc.engine.VllmEngine/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    answer = httpx.post(f"{emulator.http_url}/v1/systemone", json={"questions": {}}, timeout=60)
    assert answer.status_code == 404

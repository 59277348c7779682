"""Recorded text, as clients meet it: told, within its limits, and no concern of whoever needs the model."""

import json
import threading

import grpc
import httpx
import psutil
import pytest
from google.protobuf import json_format

from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from serving.process.server_process import ServerProcess
from tests.conftest import MODEL

PLAIN = {"model": MODEL, "prompt": "A law is", "max_tokens": 24}
OWN = [
    {"seed": 1},
    {"logprobs": 1},
    {"logprobs": 1, "logprob_token_ids": [1, 2, 9]},
    {"logit_bias": {"5": 1.0}},
    {"echo": True},
    {"presence_penalty": 0.5},
    {"response_format": {"type": "json_object"}},
]


def ask(child: ServerProcess, **fields: object) -> httpx.Response:
    answer = httpx.post(f"{child.http_url}/v1/completions", json=PLAIN | fields, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


def metric(child: ServerProcess, name: str) -> float:
    lines = httpx.get(f"{child.http_url}/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_it_is_told_that_text_is_recorded(recorded_emulator: ServerProcess) -> None:
    tokens, before = (
        metric(recorded_emulator, "foreserve_recorded_tokens_total"),
        metric(recorded_emulator, "foreserve_unrouted"),
    )
    answer = ask(recorded_emulator, ignore_eos=True)
    assert answer.headers["x-foreserve-text"] == "recorded"
    assert answer.json()["system_fingerprint"].endswith("-recorded")
    assert answer.json()["usage"]["completion_tokens"] == 24
    assert metric(recorded_emulator, "foreserve_recorded_tokens_total") == tokens + 24
    assert metric(recorded_emulator, 'foreserve_text_requests_total{text="recorded"}') >= 1
    assert metric(recorded_emulator, "foreserve_unrouted") == before, "routes that were recorded are no guesses"
    with httpx.stream("POST", f"{recorded_emulator.http_url}/v1/completions", json=PLAIN | {"stream": True}) as stream:
        assert "-recorded" in "".join(stream.iter_text())
        assert stream.headers["x-foreserve-text"] == "recorded"


@pytest.mark.parametrize("fields", OWN, ids=lambda fields: next(iter(fields)))
def test_who_needs_the_model_gets_it(recorded_emulator: ServerProcess, fields: dict[str, object]) -> None:
    answer = ask(recorded_emulator, **fields)
    assert answer.headers["x-foreserve-text"] == "vllm"
    assert not answer.json()["system_fingerprint"].endswith("-recorded")


def test_limits_hold(recorded_emulator: ServerProcess) -> None:
    stopped = ask(recorded_emulator, max_tokens=400, ignore_eos=True, stop=["e"]).json()["choices"][0]
    assert stopped["finish_reason"] == "stop" and "e" not in stopped["text"]
    ended = ask(recorded_emulator, max_tokens=2000).json()
    assert ended["choices"][0]["finish_reason"] == "stop" and ended["usage"]["completion_tokens"] < 1000
    underruns = metric(recorded_emulator, "foreserve_underruns_total")
    long = ask(recorded_emulator, max_tokens=700, min_tokens=690).json()
    assert long["usage"]["completion_tokens"] > 690
    # Its second page came in time.
    assert metric(recorded_emulator, "foreserve_underruns_total") == underruns
    # Two of them may be the same answer, as chance has it.
    several = ask(recorded_emulator, n=5).json()["choices"]
    assert len({choice["text"] for choice in several}) > 2


def test_grpc_has_it_too(recorded_emulator: ServerProcess) -> None:
    request = json_format.ParseDict(PLAIN | {"ignore_eos": True}, pb.CompletionRequest())
    with grpc.insecure_channel(recorded_emulator.grpc_url.removeprefix("grpc://")) as channel:
        stub = openai_pb2_grpc.OpenAIStub(channel)
        chunks = list(stub.StreamCompletion(request, timeout=60))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert chunks[-1].system_fingerprint.endswith("-recorded")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("actor", ["TokenSource", "HbXpu"])
def test_a_recorded_answer_goes_on_when_an_actor_dies(recorded_emulator: ServerProcess, actor: str) -> None:
    body = PLAIN | {"stream": True, "max_tokens": 1200, "ignore_eos": True, "return_token_ids": True}
    counts = []

    def stream() -> None:
        with httpx.stream("POST", f"{recorded_emulator.http_url}/v1/completions", json=body, timeout=60) as answer:
            lines = [line.removeprefix("data: ") for line in answer.iter_lines()]
        chunks = [json.loads(line) for line in lines if line.startswith("{")]
        # Tokens that were overdue come together.
        counts.append(sum(len(choice["token_ids"]) for chunk in chunks for choice in chunk["choices"]))

    clients = [threading.Thread(target=stream) for _ in range(4)]
    for client in clients:
        client.start()
    family = psutil.Process(recorded_emulator.process.pid).children(recursive=True)
    next(process for process in family if f"ray::{actor}" in " ".join(process.cmdline())).kill()
    for client in clients:
        client.join(120)
    assert counts == [1200] * 4


def test_auto_asks_vllm_for_what_recorded_text_cannot_be(emulator: ServerProcess) -> None:
    for fields in ({"seed": 3}, {"temperature": 0.0}):
        assert ask(emulator, **fields).headers["x-foreserve-text"] == "vllm"

"""A request whose steps end its device, wherever it goes: it is found and refused, and nobody else loses a token."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import openai
import pytest
from google.protobuf import json_format

from serving.api.pb.foreserve.v1 import openai_pb2, openai_pb2_grpc
from serving.process.server_process import ServerProcess, server
from tests.conftest import MODEL

STREAMS, TOKENS = 40, 200  # more than are told apart by as few deaths as a device is given up after
# The defect that the device of a request with this id has.
DEFECT = """
import os
from serving.device.engine import Engine

price = Engine.price
def deadly(engine, batch):
    if any("poison" in id for id in batch.ids):
        os._exit(1)
    return price(engine, batch)
Engine.price = deadly
"""


@pytest.fixture(scope="module", params=["1", "2"], ids=["one-device", "two-devices"])
def defective(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One device, or two, of which each has the defect, in a process of its own."""
    folder = tmp_path_factory.mktemp("defect")
    (folder / "sitecustomize.py").write_text(DEFECT)
    environment = {"PYTHONPATH": f"{folder}:{Path.cwd()}"}
    options = ("--devices", request.param, "--speed", "4", "--token-model", "foreserve-tiny")
    with server(*options, quiet=True, environment=environment) as child:
        yield child


def text(client: openai.OpenAI, seed: int) -> str:
    stream = client.completions.create(
        model=MODEL, prompt="Once", max_tokens=TOKENS, seed=seed, stream=True, extra_body={"ignore_eos": True}
    )
    return "".join(chunk.choices[0].text for chunk in stream)


def recovers(child: ServerProcess, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while httpx.get(f"{child.http_url}/ready", trust_env=False).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_request_that_ends_its_device_is_refused_and_no_other_is_hurt(defective: ServerProcess) -> None:
    client = openai.OpenAI(base_url=f"{defective.http_url}/v1", api_key="none", max_retries=0, timeout=120)
    with ThreadPoolExecutor(STREAMS) as pool:
        alone = list(pool.map(lambda seed: text(client, seed), range(STREAMS)))
        others = [pool.submit(text, client, seed) for seed in range(STREAMS)]
        time.sleep(0.5)
        headers = {"X-Request-Id": "poison"}
        with pytest.raises(openai.InternalServerError, match="it was given up"):
            client.completions.create(model=MODEL, prompt="Now", max_tokens=8, extra_headers=headers)
        assert [other.result() for other in others] == alone
    recovers(defective)
    assert text(client, 0) == alone[0]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_over_grpc_it_is_told_the_same(defective: ServerProcess) -> None:
    recovers(defective)
    with grpc.insecure_channel(defective.grpc_url.removeprefix("grpc://")) as channel:
        stub = openai_pb2_grpc.OpenAIStub(channel)
        said = {"model": MODEL, "prompt": "Now", "max_tokens": 8}
        request = json_format.ParseDict(said, openai_pb2.CompletionRequest())
        with pytest.raises(grpc.RpcError, match="it was given up") as refused:
            stub.CreateCompletion(request, metadata=(("x-request-id", "poison"),), timeout=120)
        assert refused.value.code() is grpc.StatusCode.INTERNAL

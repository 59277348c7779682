"""Does the same client stream over HTTP and gRPC from any kind of hardware, each seen in metrics by its own names?"""

import re
from collections.abc import Iterator

import grpc
import httpx
import openai
import pytest
from google.protobuf import json_format

from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from serving.process.server_process import ServerProcess, server

# Slow, as it starts a server of its own. What it checks keeps no time.
pytestmark = [pytest.mark.timeout(300), pytest.mark.beside, pytest.mark.slow]

MODEL, TOKENS = "olmoe-1b-7b", 12
# From the fastest to the slowest, each with its tiers.
HARDWARE = {
    "stratum-s": ("mono3d", "interposer"),
    "a6000": ("hbm", "host"),
    "npu-64t": ("dram", "host"),
    "a100-8gb": ("hbm", "host"),
}
BODY = {
    **{"model": MODEL, "messages": [{"role": "user", "content": "What is a contract?"}]},
    **{"max_tokens": TOKENS, "temperature": 0, "seed": 1, "ignore_eos": True},
}


@pytest.fixture(scope="module")
def served() -> Iterator[ServerProcess]:
    devices = [word for name in HARDWARE for word in ("--device", name)]
    with server(*devices, "--model", MODEL, "--router", "round-robin", "--max-model-len", "1024", quiet=True) as child:
        yield child


def over_http(client: openai.OpenAI) -> str:
    own = {"ignore_eos": BODY["ignore_eos"]}
    chunks = client.chat.completions.create(  # type: ignore[call-overload]
        **{key: value for key, value in BODY.items() if key not in own}, stream=True, extra_body=own
    )
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def over_grpc(stub: openai_pb2_grpc.OpenAIStub) -> str:
    chunks = stub.StreamChatCompletion(json_format.ParseDict(BODY, pb.ChatCompletionRequest()), timeout=60)
    return "".join(choice.delta.content for chunk in chunks for choice in chunk.choices)


def test_the_same_client_streams_from_each(served: ServerProcess) -> None:
    client = openai.OpenAI(base_url=f"{served.http_url}/v1", api_key="none", max_retries=0)
    with grpc.insecure_channel(served.grpc_url.removeprefix("grpc://")) as channel:
        stub = openai_pb2_grpc.OpenAIStub(channel)
        # Each device in turn has one of either.
        said = [over_http(client) for _ in HARDWARE] + [over_grpc(stub) for _ in HARDWARE]
    assert len(set(said)) == 1 and len(said[0]) > TOKENS

    metrics = httpx.get(f"{served.http_url}/metrics", timeout=60).text

    def by(name: str, device: int, label: str = "device") -> dict[str, float]:
        lines = [line for line in metrics.splitlines() if line.startswith(f"{name}{{") and f'device="{device}"' in line]
        return {re.findall(rf'\b{label}="([^"]*)"', line)[0]: float(line.split()[-1]) for line in lines}

    busy = []
    for device, tiers in enumerate(HARDWARE.values()):
        moved, joules = (
            by("foreserve_tier_bytes_total", device, "tier"),
            by("foreserve_energy_joules_total", device, "component"),
        )
        assert tuple(moved) == tiers and moved[tiers[0]] > 0
        assert set(joules) == {"compute", "comm", "static", *tiers} and joules["static"] > 0
        busy += by("foreserve_busy_seconds_total", device).values()
    # The same work, on faster and slower hardware.
    assert busy == sorted(busy) and busy[-1] > 10 * busy[0] > 0
    # Only one kind fetches experts from its host.
    fetched = [by("foreserve_tier_bytes_total", device, "tier").get("host", 0.0) > 0 for device in range(4)]
    assert fetched == [False, False, False, True]
    # 7 GiB that it may use of the GPU's memory are full, and the host has all 1,024 experts, of 12.6 MB each.
    lines = [line for line in metrics.splitlines() if line.startswith('foreserve_tier_used_bytes{device="3"')]
    used = {
        tier: sum(float(line.split()[-1]) for line in lines if f'tier="{tier}"' in line) for tier in ("hbm", "host")
    }
    assert used == pytest.approx({"hbm": 7 * 2**30, "host": 1024 * 3 * 2048 * 1024 * 2}, rel=1e-6)

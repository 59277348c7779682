"""Ask a server for ten times what it can hold: python -m tests.soak.overload --seconds 60

Goodput is tokens of whole answers a second. Its peak is that of as many clients as the server has places.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import grpc
import httpx
import msgspec
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2

from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from serving.process.server_process import ServerProcess, server
from tests.conftest import MODEL

TOKENS = 100
PLACES = 32
FACTOR = 10
CALM_S = 5.0
GRPC_DETAILS = "grpc-status-details-bin"


@dataclass(slots=True)
class Load:
    """What came of a load: answers by kind, tokens of whole ones, and how long /health took, in seconds."""

    answers: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    health_s: list[float] = field(default_factory=list)
    began_s: float = 0.0
    took_s: float = 0.0

    @property
    def goodput(self) -> float:
        """Tokens of whole answers a second."""
        return self.tokens / self.took_s

    @property
    def wrong(self) -> list[str]:
        """The kinds of answers that there should be none of."""
        return [kind for kind in self.answers if kind not in ("whole", "refused")]

    def __str__(self) -> str:
        slow = sorted(self.health_s)
        health = [1000 * slow[int(share * (len(slow) - 1))] for share in (0.5, 0.99)] if slow else []
        return (
            f"{self.goodput:.0f} tokens/s in {self.took_s:.0f} s, {dict(self.answers)}, "
            f"/health p50/p99 {'/'.join(f'{ms:.0f}' for ms in health)} ms"
        )


async def load(child: ServerProcess, clients: int, seconds: float) -> Load:
    """Send requests from so many clients, half of them over gRPC, each one after the other."""
    found = Load(began_s=time.monotonic())
    end_s = found.began_s + seconds
    limits = httpx.Limits(max_connections=None)
    async with (
        httpx.AsyncClient(base_url=child.http_url, limits=limits, timeout=300) as http,
        grpc.aio.insecure_channel(child.grpc_url.removeprefix("grpc://")) as channel,
        asyncio.TaskGroup() as tasks,
    ):
        stub = openai_pb2_grpc.OpenAIStub(channel)  # type: ignore[no-untyped-call]
        tasks.create_task(_watch_health(child, found, seconds))
        for index in range(clients):
            ask = _over_grpc(stub) if index % 2 else _over_http(http)
            tasks.create_task(_client(ask, index, found, end_s))
    found.took_s = time.monotonic() - found.began_s
    return found


async def _client(ask, index: int, found: Load, end_s: float) -> None:
    turn = 0
    while time.monotonic() < end_s:
        turn += 1
        try:
            kind, number = await ask(f"Tell me about number {index}, {turn}.", 1000 * index + turn)
        except Exception as error:
            kind, number = repr(error)[:120], 0.0
        found.answers[kind] += 1
        if kind == "whole":
            found.tokens += int(number)
        elif kind == "refused":
            await asyncio.sleep(min(number, max(0.0, end_s - time.monotonic())))


def _body(prompt: str, seed: int) -> dict[str, object]:
    message = {"role": "user", "content": prompt}
    return {"model": MODEL, "messages": [message], "max_tokens": TOKENS, "seed": seed, "ignore_eos": True}


def _over_http(http: httpx.AsyncClient):
    async def ask(prompt: str, seed: int) -> tuple[str, float]:
        body = _body(prompt, seed) | {"stream": True, "stream_options": {"include_usage": True}}
        async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
            if answer.status_code == 429:
                after = answer.headers.get("retry-after")
                return ("refused", float(after)) if after else ("429 without a retry time", 0.0)
            used, done = 0, False
            async for line in answer.aiter_lines():
                done = done or line == "data: [DONE]"
                if line.startswith("data: {"):
                    chunk = msgspec.json.decode(line[6:])
                    if "error" in chunk:
                        return f"error: {chunk['error']['message'][:80]}", 0.0
                    used = (chunk.get("usage") or {}).get("completion_tokens", used)
            whole = answer.status_code == 200 and done and used == TOKENS
            return ("whole" if whole else f"HTTP {answer.status_code}, {used} tokens", used)

    return ask


def _over_grpc(stub):
    async def ask(prompt: str, seed: int) -> tuple[str, float]:
        request, used = json_format.ParseDict(_body(prompt, seed), pb.ChatCompletionRequest()), 0
        request.stream_options.include_usage = True
        try:
            async for chunk in stub.StreamChatCompletion(request, timeout=300):
                used = chunk.usage.completion_tokens or used
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                after_s = _retry_s(error)
                return ("refused", after_s) if after_s else ("RESOURCE_EXHAUSTED without a retry time", 0.0)
            return f"{error.code().name}: {str(error.details())[:80]}", 0.0
        return ("whole" if used == TOKENS else f"gRPC, {used} tokens", used)

    return ask


def _retry_s(error: grpc.aio.AioRpcError) -> float:
    details = dict(error.trailing_metadata() or ()).get(GRPC_DETAILS, b"")
    info = error_details_pb2.RetryInfo()
    found = any(detail.Unpack(info) for detail in status_pb2.Status.FromString(details).details)
    return info.retry_delay.ToNanoseconds() / 1e9 if found else 0.0


async def _watch_health(child: ServerProcess, found: Load, seconds: float) -> None:
    """Have another process ask: this one's own loop would keep answers waiting."""
    command = [sys.executable, "-m", "tests.soak.health", child.http_url, str(seconds)]
    asking = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await asking.communicate()
    for took_s in json.loads(told):
        if took_s is None:
            found.answers["/health is not well"] += 1
        else:
            found.health_s.append(took_s)


def overload(child: ServerProcess, seconds: float, places: int = PLACES, factor: int = FACTOR) -> list[str]:
    """What was found, each in a line; what was measured is printed."""
    peak = asyncio.run(load(child, places, seconds / 2))
    print(f"as many clients as places ({places}): {peak}")
    over = asyncio.run(load(child, factor * places, seconds))
    print(f"{factor} times as many: {over}")
    time.sleep(CALM_S)
    after = asyncio.run(load(child, places, seconds / 4))
    print(f"{CALM_S:.0f} s later, as many as places again: {after}")
    shares = [each.goodput / peak.goodput for each in (over, after)]
    print(f"goodput under overload: {shares[0]:.0%} of the peak; afterwards {shares[1]:.0%}")
    loads = {"peak": peak, "over": over, "after": after}
    return [f"{name}: {kind}" for name, each in loads.items() for kind in each.wrong]


def main() -> int:
    """0 if nothing was found, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--places", type=int, default=PLACES)
    args, options = parser.parse_known_args()
    with server("--max-queue", str(args.places), *options, quiet=True) as child:
        found = overload(child, args.seconds, args.places)
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

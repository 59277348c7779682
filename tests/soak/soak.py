"""Mixed clients, cancels and disconnects for a long time: python -m tests.soak.soak --minutes 30

Memory, descriptors, threads and gauges of each process must be level: the last third of the time against the second.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

import grpc
import httpx
from google.protobuf import json_format

from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from serving.process.server_process import ServerProcess, server
from tests.conftest import MODEL
from tests.soak.levels import MIB, Level, levels

CLIENTS = 24
LOOK_S = 5.0
CALM_S = 10.0
# What a process may have grown by from the second third to the last: an allocator breathes.
GROWTH = Level(rss_bytes=24 * MIB, files=8, threads=4)
ALLOWED = ("HTTP 200", "HTTP 429", "gRPC OK", "gone", "gRPC RESOURCE_EXHAUSTED")
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting{", "foreserve_queue_requests")


async def clients(child: ServerProcess, seconds: float, seed: int) -> Counter[str]:
    """What became of the requests of clients of all kinds, some of whom go away."""
    done, end_s = Counter[str](), time.monotonic() + seconds
    async with (
        httpx.AsyncClient(base_url=child.http_url, timeout=120, limits=httpx.Limits(max_connections=None)) as http,
        grpc.aio.insecure_channel(child.grpc_url.removeprefix("grpc://")) as channel,
        asyncio.TaskGroup() as tasks,
    ):
        stub = openai_pb2_grpc.OpenAIStub(channel)  # type: ignore[no-untyped-call]
        for index in range(CLIENTS):
            tasks.create_task(_client(http, stub, random.Random(f"{seed} {index}"), done, end_s))
    return done


async def _client(http, stub, draw: random.Random, done: Counter[str], end_s: float) -> None:
    while time.monotonic() < end_s:
        ask = draw.choice((_streamed, _whole, _over_grpc))
        patience_s = draw.choice((None, None, draw.uniform(0.0, 0.05), draw.uniform(0.0, 2.0)))
        try:
            async with asyncio.timeout(patience_s):
                done[await ask(http, stub, draw)] += 1
        except TimeoutError:
            done["gone"] += 1
        except (httpx.HTTPError, grpc.aio.AioRpcError) as error:
            done[f"{type(error).__name__}: {error}"[:80]] += 1


def _body(draw: random.Random) -> dict[str, object]:
    prompt = " ".join(f"word{draw.randrange(99)}" for _ in range(draw.choice((3, 30, 200))))
    sampling = draw.choice(({}, {"seed": 3}, {"temperature": 0.0, "n": 1}, {"stop": ["the"]}))
    more = {"max_tokens": draw.choice((1, 10, 60)), "n": draw.choice((1, 1, 3))} | sampling
    return {"model": MODEL, "messages": [{"role": "user", "content": prompt}], **more}


async def _streamed(http, stub, draw: random.Random) -> str:
    async with http.stream("POST", "/v1/chat/completions", json=_body(draw) | {"stream": True}) as answer:
        async for line in answer.aiter_lines():
            if '"error"' in line:
                return line[:80]
        return f"HTTP {answer.status_code}"


async def _whole(http, stub, draw: random.Random) -> str:
    return f"HTTP {(await http.post('/v1/chat/completions', json=_body(draw))).status_code}"


async def _over_grpc(http, stub, draw: random.Random) -> str:
    try:
        async for _ in stub.StreamChatCompletion(json_format.ParseDict(_body(draw), pb.ChatCompletionRequest())):
            pass
    except grpc.aio.AioRpcError as error:
        # Who has gone away may hold a place for a while.
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return "gRPC RESOURCE_EXHAUSTED"
    return "gRPC OK"


async def watch(child: ServerProcess, seconds: float) -> list[dict[str, Level]]:
    """What each process held, every `LOOK_S`."""
    seen, end_s = list[dict[str, Level]](), time.monotonic() + seconds
    while time.monotonic() < end_s:
        seen.append(await asyncio.to_thread(levels, child.process.pid))
        await asyncio.sleep(LOOK_S)
    return seen


def grown(seen: Sequence[dict[str, Level]]) -> list[str]:
    """The processes that held more in the last third of the time than in the second, by the median; all are printed."""
    third = len(seen) // 3
    by_name = defaultdict(list)
    for name in seen[-1]:
        for part in (seen[third : 2 * third], seen[-third:]):
            held = [levels[name] for levels in part if name in levels]
            by_name[name].append(Level(*(int(statistics.median(figures)) for figures in zip(*held, strict=True))))
    for name, (then, now) in by_name.items():
        parts = [seen[len(seen) * n // 10] for n in range(1, 10)] if len(seen) >= 10 else []
        course = ", ".join(str(levels[name].rss_bytes // MIB) for levels in parts if name in levels)
        print(f"{name}: {then}; then {now} (MiB after each tenth: {course})")
    return [
        f"{name} grew: {then}, then {now}"
        for name, (then, now) in by_name.items()
        if any(b - a > most for a, b, most in zip(then, now, GROWTH, strict=True))
    ]


def left(child: ServerProcess) -> list[str]:
    """Gauges of requests that are not 0 though nobody asks for anything."""
    lines = httpx.get(f"{child.http_url}/metrics").text.splitlines()
    return [line for line in lines if line.startswith(GAUGES) and float(line.rsplit(" ", 1)[1]) != 0]


def mixed(child: ServerProcess, seconds: float, seed: int = 0) -> tuple[list[str], list[dict[str, Level]]]:
    """What was wrong with answers, and what is left of requests, each in a line; and what processes held meanwhile."""

    async def run() -> tuple[Counter[str], list[dict[str, Level]]]:
        return await asyncio.gather(clients(child, seconds, seed), watch(child, seconds))

    done, seen = asyncio.run(run())
    print(f"{sum(done.values())} requests in {seconds:.0f} s: {dict(done)}")
    end_s = time.monotonic() + CALM_S
    while left(child) and time.monotonic() < end_s:
        time.sleep(0.1)
    wrong = [f"{count} times {kind}" for kind, count in done.items() if kind not in ALLOWED]
    return wrong + left(child), seen


def main() -> int:
    """0 if nothing was found, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    args, options = parser.parse_known_args()
    with server("--devices", "2", *options, quiet=True) as child:
        found, seen = mixed(child, 60 * args.minutes, args.seed)
        found += grown(seen)
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

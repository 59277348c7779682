"""Whoever goes away, at whatever moment, leaves nothing behind: no request, no place in the queue, no buffer."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import REGISTRY, generate_latest
from vllm import SamplingParams
from vllm.exceptions import VLLMClientError
from vllm.v1.engine import EngineCoreRequest

from serving.cli.emulation import build_engine, make_ready
from serving.clock import ClockOrigin
from serving.cluster import cluster
from serving.cluster.readiness import Readiness
from serving.cluster.session.ray_session import ray_session
from serving.cluster.streams.sockets import here
from serving.cluster.streams.stream import Inbox
from serving.edge.preflight import prepare
from serving.scenario.scenario import Scenario
from serving.token_source.vllm_args import prepare_environment, vllm_flags
from serving.token_source.vllm_source import probe
from serving.types import Release

pytestmark = pytest.mark.alone

# Turns of the loop after which a request is cancelled: the first are each a step of the way in, then come waits for
# other processes, and at the end tokens.
TURNS = [*range(0, 40, 2), *range(40, 400, 30), *range(400, 4000, 600)]


@contextlib.asynccontextmanager
async def emulation(scenario: Scenario) -> AsyncIterator[Any]:
    """The engine and its core, without servers in front of them."""
    prepare_environment(scenario.token_model)
    prepared = prepare(scenario)
    with prepared.sock, ray_session() as folder:
        flags = vllm_flags(scenario, prepared.max_model_len)
        inbox: Inbox[list[Release]] = Inbox(list[Release], folder, "edge", here(False))
        sources = cluster.start_sources(scenario, prepared.max_model_len, False, inbox.address, {})
        engine, core, metrics = await build_engine(
            prepared, flags, sources, inbox, ClockOrigin(time.time(), scenario.speed), {}
        )
        await make_ready(prepared, engine, core, metrics, flags, Readiness(core.devices))
        yield engine, core
        engine.shutdown()


async def ask(engine: Any, id: str, n: int) -> None:
    engine.stamp()
    params = SamplingParams(max_tokens=50, n=n, seed=1, ignore_eos=True)
    prompt = engine.renderer.tokenizer.encode("Tell me about caches.")
    async for _ in engine.generate({"type": "token", "prompt_token_ids": prompt}, params, id):
        pass


async def cancel_after(turns: int, engine: Any, id: str, n: int) -> None:
    task = asyncio.create_task(ask(engine, id, n))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def probe_of_nothing() -> EngineCoreRequest:
    """A request without a prompt."""
    request = probe("nothing", 5, 64)
    request.prompt_token_ids = []
    return request


async def left_behind(engine: Any, core: Any) -> dict[str, int]:
    """What is there of requests, anywhere."""
    node = core.devices.nodes[0]
    lines = generate_latest(REGISTRY).decode().splitlines()
    gauges = [line for line in lines if line.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting{"))]
    assert gauges
    return {
        "states": len(engine.output_processor.request_states),
        "external": len(engine.output_processor.external_req_ids),
        "parents": len(engine.output_processor.parent_requests),
        "flights": len(core._dispatcher.flights),
        "in flight": core.devices.in_flight(0),
        "set aside": core.set_aside,
        "buffers": len(await node.device.held.remote()),
        "gauges": int(sum(float(line.rsplit(" ", 1)[1]) for line in gauges)),
    }


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cancel_at_any_moment_leaves_nothing_behind() -> None:
    async def cancel_all() -> dict[str, int]:
        scenario = Scenario(
            token_model="foreserve-tiny", batching="topic-aware", max_model_len=512, http_port=0, grpc_port=0
        )
        async with emulation(scenario) as (engine, core):
            await ask(engine, "whole", 1)
            # As a front end in another process may send it: nobody else is the worse for it.
            with pytest.raises(VLLMClientError, match="at least one token"):
                await core.add_request_async(probe_of_nothing())
            await ask(engine, "again", 1)
            cancels = [*itertools.product(TURNS, [1]), *itertools.product(TURNS[::3], [3])]
            for number, (turns, n) in enumerate(cancels):
                await cancel_after(turns, engine, f"request-{number}", n)
            # Several at once, and one that goes on beside them.
            innocent = asyncio.create_task(ask(engine, "innocent", 1))
            await asyncio.gather(*(cancel_after(turns, engine, f"together-{turns}", 1) for turns in TURNS))
            await innocent
            for _ in range(1000):
                left = await left_behind(engine, core)
                if not any(left.values()):
                    break
                await asyncio.sleep(0.05)
            return left

    left = asyncio.run(cancel_all())
    assert not any(left.values()), left

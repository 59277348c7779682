"""Brings an emulation up, in the order that makes it ready soonest, and takes it down without a trace."""

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from device_model.device import RooflineDevice
from device_model.spec import SpecError
from serving import cluster
from serving.corpus.parts import OTHER, TOPICS
from serving.emulated import Emulated
from serving.pricing import check_trace
from serving.priority import become_urgent, may_be_realtime, settle
from serving.rules import Limits, Rules
from serving.scenario import Scenario, ScenarioError
from serving.scheduling import limits_of, rules_of
from serving.slo import parse_classes
from serving.step_log import StepLog
from serving.vllm_flags import context_of, engine_args, parse_flags, prepare_environment, vllm_flags
from serving.ways import Ways

if TYPE_CHECKING:
    from fastapi import FastAPI
    from prometheus_client import CollectorRegistry

    from serving.admission import Admission
    from serving.clock import WallClock
    from serving.metrics import Metrics
    from serving.paced_core import PacedCore
    from serving.paced_engine import PacedEngine

log = logging.getLogger("foreserve")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Serving:
    """An emulation that is up."""

    scenario: Scenario
    http_port: int
    grpc_port: int
    ready_s: float
    realtime: bool


@dataclass(slots=True)
class Bringup:
    """What is known before anything is started: a wrong scenario fails here, within a second."""

    scenario: Scenario
    ways: Ways
    limits: Limits
    rules: Rules
    max_model_len: int
    sock: socket.socket
    step_log: StepLog | None = None

    @property
    def device(self) -> RooflineDevice:
        """The device model."""
        return self.ways.device


def prepare(scenario: Scenario) -> Bringup:
    """Check a scenario and take its HTTP port; raises `ScenarioError`."""
    try:
        emulated = Emulated.of(scenario)
        ways = emulated.load()
        emulated.switching.modes(ways)
        if emulated.trace is not None:
            check_trace(emulated.trace)
    except SpecError as error:
        raise ScenarioError(str(error)) from error
    device = ways.device
    limits, rules = limits_of(scenario, device), rules_of(scenario, ways)
    context = min(
        scenario.max_model_len,
        device.max_context_tokens,
        limits.kv_capacity_tokens,
        context_of(scenario.token_model),
    )
    free_port(scenario.host, scenario.grpc_port, "grpc_port").close()
    return Bringup(scenario, ways, limits, rules, context, free_port(scenario.host, scenario.http_port, "http_port"))


def free_port(host: str, port: int, key: str) -> socket.socket:
    """A socket bound to a port; raises `ScenarioError` if another program has it."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise ScenarioError(
            f"`{key}` is {port}, and {host}:{port} cannot be had ({error.strerror}): "
            f"choose another with --{key.replace('_', '-')} (0: any free one)."
        ) from error
    return sock


@contextlib.asynccontextmanager
async def serving(bringup: Bringup, say: Say) -> AsyncIterator[Serving]:
    """An emulation, up for as long as the context lasts."""
    began = time.monotonic()
    scenario = bringup.scenario
    prepare_environment(scenario.token_model)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(bringup.sock.close)
        say("Starting Ray ...")
        stack.callback(ray.shutdown)
        cluster.start_ray()
        flags = vllm_flags(scenario, bringup.max_model_len)
        say("Starting the token source (vLLM) and the devices ...")
        realtime = may_be_realtime()
        source = cluster.start_source(scenario, flags, realtime)
        engine, core = await build_engine(bringup, flags, source)
        stack.callback(engine.shutdown)
        app = await make_ready(bringup, engine, core, flags)
        core.metrics.emulator.set_info(**info(scenario, realtime))
        grpc_port, http_port = await open_edge(stack, bringup, engine, app)
        become_urgent()
        settle()
        yield Serving(scenario, http_port, grpc_port, time.monotonic() - began, realtime)


async def build_engine(bringup: Bringup, flags: list[str], source: Any) -> "tuple[PacedEngine, PacedCore]":
    """The engine and the actors behind it; vLLM is imported here while the source does so in its own process."""
    from prometheus_client import CollectorRegistry

    from serving.clock import WallClock
    from serving.dispatch import Dispatcher
    from serving.flow import Release
    from serving.wire import Inbox

    scenario = bringup.scenario
    origin = time.time()
    inbox: Inbox[list[Release]] = Inbox(list[Release])
    model = cluster.start_model(scenario)
    nodes = cluster.start_nodes(
        scenario,
        (bringup.limits, bringup.rules),
        bringup.device.ext_bytes_per_s,
        (origin, scenario.speed),
        inbox.address,
    )
    config = engine_args(flags).create_engine_config()

    from serving.paced_core import PacedCore
    from serving.paced_engine import PacedEngine

    actors = cluster.Cluster(nodes, model, source)
    dispatcher = Dispatcher(actors, WallClock(origin, scenario.speed), scenario.token_ahead, inbox)
    block_tokens = scenario.block_tokens if scenario.prefix_caching else 0
    core = PacedCore(
        dispatcher, admission_of(bringup, dispatcher.clock), metrics_of(bringup, CollectorRegistry()), block_tokens
    )
    return PacedEngine(config, core), core


async def make_ready(bringup: Bringup, engine: "PacedEngine", core: "PacedCore", flags: list[str]) -> "FastAPI":
    """vLLM's application, with everything below it connected and warm, and nothing of that in the metrics."""
    from prometheus_client import REGISTRY

    from serving.api.http_openai import make_app
    from serving.api.warm_up import warm_up

    app = await make_app(engine, parse_flags(flags))
    await core.start()
    await warm_up(app.state, bringup.scenario.model)
    core.metrics = metrics_of(bringup, REGISTRY)
    if bringup.step_log:
        core.on_step = bringup.step_log
    return app


def metrics_of(bringup: Bringup, registry: "CollectorRegistry") -> "Metrics":
    """The metrics of an emulation, in a registry."""
    from serving.metrics import Metrics

    scenario, device = bringup.scenario, bringup.device
    return Metrics(registry, (scenario.model, bringup.max_model_len), device.kv_capacity_tokens, scenario.devices)


def admission_of(bringup: Bringup, clock: "WallClock") -> "Admission":
    """Who is admitted, by the scenario's rules, and by what the devices are forecast to do."""
    from serving.admission import Admission
    from serving.forecast import Forecast, Queue
    from serving.key_limits import Keys, Limits
    from serving.pace import Pace
    from serving.wishes import WishReader

    scenario, limits = bringup.scenario, bringup.limits
    pace = Pace(bringup.device, limits.max_num_seqs, limits.max_num_batched_tokens)
    forecast = Forecast()
    for device in range(scenario.devices):
        forecast.add(device, Queue(pace, limits.max_num_seqs, limits.max_num_batched_tokens, limits.kv_capacity_tokens))
    return Admission(
        WishReader(parse_classes(scenario.slo_classes, "`slo_classes`"), scenario.default_slo, (*TOPICS, OTHER)),
        Keys(scenario.api_keys),
        partial(Limits.of, scenario.key_requests_per_min, scenario.key_tokens_per_min),
        forecast,
        clock,
        scenario.early_rejection,
    )


def info(scenario: Scenario, realtime: bool) -> dict[str, str]:
    """The labels of `foreserve_info`."""
    return {
        "system": scenario.system,
        "hardware": scenario.hardware,
        "model": scenario.model,
        "draft": Emulated.of(scenario).draft or "none",
        "residency": scenario.residency,
        "speed": str(scenario.speed),
        "realtime": str(realtime).lower(),
    }


async def open_edge(
    stack: contextlib.AsyncExitStack, bringup: Bringup, engine: "PacedEngine", app: "FastAPI"
) -> tuple[int, int]:
    """The gRPC and HTTP servers; their ports."""
    from serving.api.grpc_server import start_grpc
    from serving.api.http_openai import HttpServer

    scenario = bringup.scenario
    grpc_server, grpc_port = await start_grpc(
        engine, app.state, scenario.host, scenario.grpc_port, list(scenario.api_keys)
    )
    stack.push_async_callback(grpc_server.stop, 0.5)
    http = HttpServer(app, engine, bringup.sock)
    stack.push_async_callback(http.stop)
    stack.push_async_callback(engine.abort_all)
    await http.start()
    return grpc_port, bringup.sock.getsockname()[1]


async def until_interrupted() -> None:
    """Waits for Ctrl-C, or for whoever ends processes politely."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


async def serve(bringup: Bringup, ready_file: Path | None) -> None:
    """`foreserve serve`: up until interrupted."""
    scenario = bringup.scenario
    print(f"foreserve: {scenario.model} on {scenario.devices} x {scenario.hardware}, speed {scenario.speed:g}")
    async with serving(bringup, say=lambda line: print(line, flush=True)) as up:
        print(greeting(up), flush=True)
        if ready_file:
            addresses = {"http_port": up.http_port, "grpc_port": up.grpc_port, "ready_s": round(up.ready_s, 2)}
            ready_file.write_text(json.dumps(addresses | {"realtime": up.realtime}), encoding="utf-8")
        await until_interrupted()
        print("\nStopping ...", flush=True)


def greeting(up: Serving) -> str:
    """What a user needs now: where it listens, and lines to paste."""
    scenario, host = up.scenario, up.scenario.host
    question = {"model": scenario.model, "max_tokens": 32, "messages": [{"role": "user", "content": "Hello!"}]}
    streamed = json.dumps(question | {"stream": True})
    key = ' -H "Authorization: Bearer $OPENAI_API_KEY"' if scenario.api_keys else ""
    priority = "real-time priority" if up.realtime else "no real-time priority (not permitted here): expect more jitter"
    return f"""
Ready in {up.ready_s:.1f} s; devices run with {priority}.
  HTTP     http://{host}:{up.http_port}/v1
  gRPC     {host}:{up.grpc_port}
  Metrics  http://{host}:{up.http_port}/metrics

Try it:
  curl -N http://{host}:{up.http_port}/v1/chat/completions -H 'Content-Type: application/json'{key} -d '{streamed}'
  {sys.argv[0]} call {host}:{up.grpc_port} foreserve.v1.OpenAI/StreamChatCompletion '{json.dumps(question)}'

Ctrl-C ends it."""

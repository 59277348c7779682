"""An emulation's start, in the order that makes it ready soonest, and its end, which leaves nothing behind."""

import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serving.cli.announcements import RunningServer, greeting, ready_file, tell
from serving.cli.discovery import announced
from serving.cli.front_ends import join_front_end, ready_response, start_edges
from serving.cli.ray_start import started_ray
from serving.cli.server_start import ServerStart
from serving.cli.supervision import loss_of_ray, unless, watch
from serving.clock import ClockOrigin, WallClock
from serving.cluster import cluster
from serving.cluster.session.ray_settings import is_joined
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.streams.sockets import here
from serving.cluster.streams.stream import Inbox
from serving.cluster.supervision.ray_watch import RayLost
from serving.edge.preflight import PreparedScenario
from serving.process.background import in_background
from serving.process.optional_imports import UNUSED, without_packages
from serving.process.process_priority import become_realtime_alone, become_urgent, may_be_realtime, settle
from serving.process.shutdown import until_told
from serving.scenario.scenario import Scenario
from serving.token_source.engine_args import engine_config
from serving.token_source.vllm_args import parse_flags, vllm_flags
from serving.types import Release

if TYPE_CHECKING:
    from fastapi import FastAPI

    from serving.cli.edges import EdgeProcesses
    from serving.cluster.readiness import Readiness
    from serving.edge.async_llm import EmulatedLLM
    from serving.edge.engine_core import EmulatedCore
    from serving.telemetry.metrics import Metrics
    from serving.telemetry.watch import Watch

log = logging.getLogger("foreserve")


@contextlib.asynccontextmanager
async def serving(prepared: PreparedScenario, start: ServerStart) -> AsyncIterator[RunningServer]:
    """Run an emulation, whose `start` has begun, for as long as the context lasts."""
    scenario = prepared.scenario
    folder, progress = start.folder, start.progress
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(prepared.close)
        progress("Starting Ray ...")
        forks = await stack.enter_async_context(started_ray(start))
        lost = loss_of_ray(stack)
        flags = vllm_flags(scenario, prepared.max_model_len)
        progress("Starting the token source (vLLM) and the devices ...")
        realtime = may_be_realtime()
        inbox: Inbox[list[Release]] = Inbox(list[Release], folder, "edge", here(is_joined()))
        sources = cluster.start_sources(
            scenario, prepared.max_model_len, realtime, inbox.address, forks.sources.options
        )
        origin = ClockOrigin.now(scenario.speed)
        edges = await start_edges(stack, prepared, start, origin)
        engine, core, watch_over = await build_engine(prepared, flags, sources, inbox, origin, forks.actors.options)
        stack.callback(engine.shutdown)
        watch_over.metrics.set_info(**info(scenario, realtime))
        readiness = watch(stack, core, (*forks.sources.servers, *forks.actors.servers), lost)
        progress.waits_for("The token source (vLLM) loads its model, and the devices make their first steps ...")
        app = await unless(lost, make_ready(prepared, engine, core, watch_over, flags, readiness))
        grpc_port, http_port = await unless(lost, open_edge(stack, prepared, engine, app, edges))
        await join_front_end(stack, prepared, engine, readiness.watch)
        await settle_in(core, scenario)
        await stack.enter_async_context(in_background(watch_over.run()))
        yield RunningServer(scenario, http_port, grpc_port, progress.done(), realtime, bool(prepared.access.api), lost)


async def settle_in(core: "EmulatedCore", scenario: Scenario) -> None:
    """Do what is left when all is started: inject a scenario's faults, each now or at its time, and go ahead of what
    else runs here, as the devices do."""
    for fault in scenario.fault_specs:
        await core.injector.inject(fault)
    become_urgent()
    if core.devices.cluster.realtime:
        become_realtime_alone()
    settle()


async def build_engine(
    prepared: PreparedScenario,
    flags: list[str],
    sources: SourceActors,
    inbox: Inbox[list[Release]],
    origin: ClockOrigin,
    forked: dict[str, Any],
) -> "tuple[EmulatedLLM, EmulatedCore, Watch]":
    """Build the engine and the actors behind it; vLLM is imported here while the source does so in its own process."""
    from serving.cluster.dispatcher import EmulationActors
    from serving.edge.edge_admission import admission_of

    scenario = prepared.scenario
    model = cluster.start_model(scenario, [spec for spec, _ in prepared.fleet], inbox.address, forked)
    actors = cluster.Cluster(scenario, prepared.max_model_len, origin, inbox.address, model, sources, forked=forked)
    nodes = [actors.start_node(index, *member) for index, member in enumerate(prepared.fleet)]
    with without_packages(*UNUSED):
        config = engine_config(flags)

    from serving.edge.async_llm import EmulatedLLM, renderer_of
    from serving.edge.engine_core import EmulatedCore
    from serving.edge.kv_events.options import kv_events_of
    from serving.telemetry.watch import Watch

    clock = WallClock(*origin)
    admission = admission_of(scenario, prepared.access.api)
    metrics = metrics_of(prepared, clock)
    observers = [metrics, *prepared.observing.observers(nodes, clock, scenario.model)]
    renderer = renderer_of(config)
    topics = None
    if scenario.asks_topics:
        # Scipy below it takes longer to be imported than all else of the edge.
        from serving.edge.prompt_topics import open_topics

        topics = open_topics(renderer.tokenizer)
    kv_events = kv_events_of(config, scenario, len(nodes))
    actors.kv_events = kv_events is not None
    core = EmulatedCore(
        EmulationActors(actors, nodes, inbox), admission, observers, prepared.answers, topics, kv_events
    )
    return EmulatedLLM(config, core, renderer), core, Watch(metrics, log.warning)


async def make_ready(
    prepared: PreparedScenario,
    engine: "EmulatedLLM",
    core: "EmulatedCore",
    watch_over: "Watch",
    flags: list[str],
    readiness: "Readiness",
) -> "FastAPI":
    """Return vLLM's application, with everything below it connected and warm; the metrics count nothing of that."""
    from prometheus_client import REGISTRY

    from serving.api.http_admin import admin_routes
    from serving.api.http_health import health_routes
    from serving.api.http_load import load_routes
    from serving.api.http_metrics import metrics_routes
    from serving.api.http_openai import make_app
    from serving.api.http_status import status_routes
    from serving.api.warm_up import warm_up
    from serving.edge.device_admin import Admin
    from serving.telemetry.metrics.snapshot import status_of

    app = await make_app(engine, parse_flags(flags))
    app.state.admin, app.state.tell_all = Admin(core.devices, core.injector), core.tell_all
    app.state.readiness, app.state.loads = readiness, watch_over.metrics.recent_load.of_all
    app.include_router(health_routes(readiness))
    app.include_router(admin_routes(app.state.admin))
    await core.start()
    await warm_up(app.state)
    if prepared.scenario.edges == 1:
        core.listen()
    # Before vLLM's own, which would be found first.
    metrics = metrics_routes(REGISTRY, watch_over.metrics.dcgm, core.tell_all)
    app.router.routes[:0] = [*metrics.routes, *load_routes().routes]
    app.include_router(status_routes(lambda: status_of(watch_over.metrics), watch_over.history.after))
    return app


def metrics_of(prepared: PreparedScenario, clock: WallClock) -> "Metrics":
    """Return the metrics of an emulation."""
    from prometheus_client import REGISTRY

    from serving.telemetry.metrics import Metrics, ServedModel

    scenario = prepared.scenario
    return Metrics(
        REGISTRY, ServedModel(scenario.model, prepared.max_model_len, scenario.block_tokens, scenario.slo), clock
    )


def info(scenario: Scenario, realtime: bool) -> dict[str, str]:
    """Return the labels of `foreserve_info`."""
    return {
        "system": joined(member.system for member in scenario.members),
        "hardware": joined(member.hardware for member in scenario.members),
        "model": scenario.model,
        "draft": joined(member.draft or "none" for member in scenario.members),
        "residency": scenario.residency,
        "law": scenario.law,
        "speed": str(scenario.speed),
        "realtime": str(realtime).lower(),
    }


def joined(names: Iterable[str]) -> str:
    """Join names with commas, each once."""
    return ", ".join(dict.fromkeys(names))


async def open_edge(
    stack: contextlib.AsyncExitStack,
    prepared: PreparedScenario,
    engine: "EmulatedLLM",
    app: "FastAPI",
    edges: "EdgeProcesses | None",
) -> tuple[int, int]:
    """Start the gRPC and HTTP servers, here or in edges of their own, until `stack` closes; return their ports."""
    from serving.api.grpc_server import start_grpc
    from serving.api.http_openai import HttpServer

    grpc_private, http_private = (edges.grpc_core, edges.http_core) if edges else ("", "")
    grpc_server, grpc_port = await start_grpc(engine, app.state, prepared, private=grpc_private)
    stack.push_async_callback(grpc_server.stop, 0.5)
    http = HttpServer(app, engine, prepared, private=http_private)
    stack.push_async_callback(http.stop)
    stack.push_async_callback(engine.fail_all)
    await http.start()
    if edges:
        app.state.in_flight = edges.in_flight
        ready = ready_response(engine, prepared.scenario.block_tokens)
        await edges.join(engine.engine_core, ready, app.state.readiness.watch)
        grpc_port = edges.grpc_port
    return grpc_port, prepared.sock.getsockname()[1]


async def serve(
    prepared: PreparedScenario, start: ServerStart, ready: Path | None, discovery_file: Path | None = None
) -> None:
    """Run `foreserve serve`, whose `start` has begun, until it is interrupted. Raise RayLost."""
    scenario = prepared.scenario
    async with contextlib.AsyncExitStack() as stack:
        up = await stack.enter_async_context(serving(prepared, start))
        stack.enter_context(announced(scenario, up.http_port, discovery_file))
        tell(greeting(up))
        told: dict[str, Any] = {"http_port": up.http_port, "grpc_port": up.grpc_port, "encrypted": scenario.encrypted}
        told |= {"ready_s": round(up.ready_s, 2), "realtime": up.realtime}
        stack.enter_context(ready_file(ready, told))
        if why := await until_told(up.lost):
            raise RayLost(why)
        tell("\nStopping ...")

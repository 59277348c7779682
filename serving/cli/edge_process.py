"""An edge in a process of its own: vLLM's servers of HTTP and gRPC, before an engine core in the process that started
it.

    python -m serving.cli.edge_process < its settings, and a pipe that ends with the engine core
"""

import asyncio
import contextlib
import os
import signal
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from serving.clock import ClockOrigin, WallClock
from serving.cluster.streams.sockets import Host
from serving.edge.preflight import PreparedScenario, sharing
from serving.process.background import in_background
from serving.process.forks.fork_off import EDGE, name_process
from serving.process.kept_process import read_given
from serving.process.logs import start_logging
from serving.process.optional_imports import UNUSED, without_packages
from serving.process.process_priority import become_urgent, defer_garbage, settle
from serving.scenario.scenario import Scenario
from serving.security.access import Access
from serving.security.tls import Tls
from serving.token_source.engine_args import engine_config
from serving.token_source.vllm_args import parse_flags, prepare_environment, vllm_flags

if TYPE_CHECKING:
    from serving.edge.async_llm import EmulatedLLM


class EdgeSettings(msgspec.Struct, frozen=True):
    """Settings of an edge: whose it is, where it listens, on this `host`, also (at `path`) for the engine core, whose
    clock has this `origin`, and its `place` on the board of arrivals; whether calls are logged or `traced`."""

    scenario: Scenario
    access: Access
    max_model_len: int
    origin: ClockOrigin
    host: Host
    path: str
    place: int
    http_core: str
    grpc_core: str
    http_port: int
    grpc_port: int
    log_format: str
    log_level: str
    traced: bool


def main() -> None:
    """Serve until told to end."""
    name_process(EDGE)
    defer_garbage()
    settings = msgspec.msgpack.decode(read_given(), type=EdgeSettings)
    threading.Thread(target=_outlive_nobody, daemon=True).start()
    start_logging(settings.log_format, settings.log_level)
    prepare_environment(settings.scenario.token_model)
    import uvloop

    uvloop.run(serve(settings))


async def serve(settings: EdgeSettings) -> None:
    """Serve until SIGTERM."""
    from serving.api.grpc_server import start_grpc
    from serving.api.http_openai import HttpServer, make_app
    from serving.api.warm_up import warm_up

    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    scenario = settings.scenario
    flags = vllm_flags(scenario, settings.max_model_len)
    engine = await build_engine(settings, flags)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(engine.shutdown)
        app = await make_app(engine, parse_flags(flags))
        await warm_up(app.state)
        await engine.engine_core.opened()
        sock = sharing(scenario.host, settings.http_port)
        options = replace(scenario, grpc_port=settings.grpc_port)
        prepared = PreparedScenario(options, [], settings.max_model_len, settings.access, Tls.of(scenario), sock)
        grpc_server, _ = await start_grpc(engine, app.state, prepared, core=settings.grpc_core)
        stack.push_async_callback(grpc_server.stop, 0.5)
        http = HttpServer(app, engine, prepared, core=settings.http_core)
        stack.push_async_callback(http.stop)
        stack.push_async_callback(engine.fail_all)
        await http.start()
        become_urgent()
        settle()
        engine.engine_core.tell_up()
        await stack.enter_async_context(in_background(engine.engine_core.send_pulses()))
        await told.wait()


async def build_engine(settings: EdgeSettings, flags: list[str]) -> "EmulatedLLM":
    """Return vLLM's front end, once the engine core is there."""
    from serving.cluster.streams.arrival_board import ArrivalBoard
    from serving.cluster.streams.stream import Inbox
    from serving.edge.arrivals import Arrivals
    from serving.edge.async_llm import EmulatedLLM, renderer_of
    from serving.edge.front_ends.edge_wires import CoreWire
    from serving.edge.remote_core import RemoteCore
    from serving.types import Release

    path, clock = Path(settings.path), WallClock(*settings.origin)
    wire, board = CoreWire(path), ArrivalBoard(path.parent)
    with without_packages(*UNUSED):
        config = engine_config(flags)
    renderer = renderer_of(config)
    await wire.ready()
    inbox: Inbox[list[Release]] = Inbox(list[Release], path.parent, f"{path.name}-tokens", settings.host)
    arrivals = Arrivals(clock, partial(board.post, settings.place))
    core = RemoteCore(wire, inbox, clock, arrivals, settings.max_model_len)
    llm = EmulatedLLM(config, core, renderer)
    core.abort_here, core.calls.traced = llm.abort_here, settings.traced
    return llm


def _outlive_nobody() -> None:
    """End with the process of the engine core, however that ends: nothing here is of use without it."""
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()

"""Front ends in other processes: edges of ours, and front ends of vLLM's."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from serving.cli.server_start import ServerStart
from serving.clock import ClockOrigin
from serving.edge.preflight import PreparedScenario, free_port
from serving.scenario.scenario import RUST_FRONT_END, Scenario
from serving.token_source.vllm_args import served_name

if TYPE_CHECKING:
    from serving.cli.edges import EdgeProcesses
    from serving.cluster.supervision.kept_part import KeptPart
    from serving.edge.async_llm import EmulatedLLM
    from serving.edge.front_ends.front_end import Ready
    from serving.edge.front_ends.rust_front_end import RustFrontEnd


async def start_edges(
    stack: contextlib.AsyncExitStack, prepared: PreparedScenario, start: ServerStart, origin: ClockOrigin
) -> "EdgeProcesses | None":
    """Start the edges that are processes of their own, until `stack` closes, if there are to be any."""
    if prepared.scenario.edges == 1:
        return None
    from serving.cli.edges import EdgeProcesses

    edges = EdgeProcesses(prepared, start, origin)
    stack.push_async_callback(edges.stop)
    await edges.start()
    return edges


async def join_front_end(
    stack: contextlib.AsyncExitStack,
    prepared: PreparedScenario,
    engine: "EmulatedLLM",
    watch: "Callable[[KeptPart], None]",
) -> None:
    """Serve the vLLM front end that a scenario names, if it names one.

    If it is vLLM's in Rust, it is started first, and `watch` gets it.
    """
    scenario = prepared.scenario
    if not scenario.front_end:
        return
    from serving.cluster.supervision.kept_part import KeptPart, answers_http
    from serving.edge.front_ends.front_end import FrontEnd
    from serving.process.background import in_background

    address = scenario.front_end
    if scenario.front_end == RUST_FRONT_END:
        rust = rust_front_end(scenario, prepared.max_model_len)
        kept, address = rust.kept(), rust.address
        await stack.enter_async_context(in_background(kept.run()))
        watch(KeptPart(RUST_FRONT_END, kept, partial(answers_http, rust.host, rust.port)))
    joining = FrontEnd(address, engine.engine_core, ready_response(engine, scenario.block_tokens))
    await stack.enter_async_context(in_background(joining.run()))


def rust_front_end(scenario: Scenario, max_model_len: int) -> "RustFrontEnd":
    """Return the start of a scenario's `vllm-rs`, on a free port for its engine. Raise UsageError."""
    from serving.edge.front_ends.rust_front_end import RustFrontEnd, find_binary

    with free_port("127.0.0.1", 0, "front_end") as sock:
        handshake = int(sock.getsockname()[1])
    model, name = scenario.token_model, served_name(scenario)
    at = (scenario.host, scenario.front_end_port, handshake)
    return RustFrontEnd(find_binary(), model, name, max_model_len, *at)


def ready_response(engine: "EmulatedLLM", block_tokens: int) -> "Ready":
    """Return what front ends in other processes are told of the devices, whose KV caches have blocks of so many
    tokens."""
    from serving.edge.front_ends.ready_message import described

    nodes = engine.engine_core.devices.nodes.values()
    kv_tokens = sum(node.device_limits.kv_capacity_tokens for node in nodes)
    return described(engine.vllm_config, kv_tokens, block_tokens)

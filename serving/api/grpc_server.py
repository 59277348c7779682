"""The gRPC server: OpenAI's API and vLLM's engine service on one port, with health and reflection."""

import socket
import time
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import REGISTRY
from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc

from serving.api.grpc.admin_service import AdminServicer
from serving.api.grpc.bounds import CallBounds, channel_options
from serving.api.grpc.call_places import CallPlaces, backlog_options
from serving.api.grpc.core_proxy import CoreServices
from serving.api.grpc.guard import GrpcGuard
from serving.api.grpc.health_service import PartsHealth
from serving.api.grpc.metrics_service import MetricsServicer
from serving.api.grpc.openai_service import OpenAIServicer
from serving.api.grpc.parse_errors import ParseErrors
from serving.api.grpc.vllm_service import EngineServicer
from serving.api.pb.foreserve.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    metrics_pb2,
    metrics_pb2_grpc,
    openai_pb2,
    openai_pb2_grpc,
)
from serving.edge.preflight import PreparedScenario
from serving.security.tls import Tls

SERVICES = (
    openai_pb2.DESCRIPTOR.services_by_name["OpenAI"].full_name,
    admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name,
    metrics_pb2.DESCRIPTOR.services_by_name["Metrics"].full_name,
    vllm_engine_pb2.DESCRIPTOR.services_by_name["VllmEngine"].full_name,
)
MAX_MESSAGE_BYTES = 64 << 20
OPTIONS: list[tuple[str, int | str]] = [
    # Streams of tokens are many small messages: rather fewer writes than the soonest.
    ("grpc.optimization_target", "throughput"),
    # Otherwise two servers would share a port in silence, each with a part of the calls.
    ("grpc.so_reuseport", 0),
    # Room for any answer: log probabilities of a whole context, and a tokenizer.
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # As vLLM's own launcher: an unary call is silent while it decodes, and a client that pings then is no attacker.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
]


async def start_grpc(
    engine: Any, state: Any, prepared: PreparedScenario, private: str = "", core: str = ""
) -> tuple[grpc.aio.Server, int]:
    """Start a server; return it, and its port: any free one if `grpc_port` is 0.

    `engine` is a `EmulatedLLM`, `state` what vLLM's `init_app_state` has filled. `private` is a Unix socket to listen
    on instead, for other edges, and `core` the one of the engine core, if that is another process: then the port may be
    shared with other edges. Raise `OSError` if the port is taken.
    """
    options = prepared.scenario
    # Other edges have places of their own before they come here.
    places = [] if private else [CallPlaces(options.max_queue)]
    stamp, bounds = ArrivalStamp(engine), CallBounds(options)
    interceptors: list[Any] = [GrpcGuard(prepared.access), *places, stamp, bounds, ParseErrors()]
    if core:
        interceptors.append(CoreServices(core))
    set_up: dict[str, int | str] = dict([*OPTIONS, *channel_options(options), *backlog_options(options.max_queue)])
    if core:
        set_up["grpc.so_reuseport"] = 1
    server = grpc.aio.server(interceptors=interceptors, options=list(set_up.items()))
    openai = OpenAIServicer(engine, state, engine.scheduler_config.max_num_queued_reqs)
    openai_pb2_grpc.add_OpenAIServicer_to_server(openai, server)  # type: ignore[no-untyped-call]
    if not core:
        admin = AdminServicer(state.admin)
        admin_pb2_grpc.add_AdminServicer_to_server(admin, server)  # type: ignore[no-untyped-call]
        metrics = MetricsServicer(REGISTRY, state.tell_all)
        metrics_pb2_grpc.add_MetricsServicer_to_server(metrics, server)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(PartsHealth(state.readiness, SERVICES), server)
    vllm = EngineServicer(engine, time.time(), getattr(state, "loads", None))
    vllm_engine_pb2_grpc.add_VllmEngineServicer_to_server(vllm, server)
    reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    if private:
        bound = server.add_insecure_port(f"unix:{private}")
    else:
        bound = bind(server, options.host, options.grpc_port, prepared.tls)
    await server.start()
    return server, bound


class ArrivalStamp(grpc.aio.ServerInterceptor):
    """Stamps arrivals."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Stamp a call, in the task that then serves it; return its handler, for which grpc asks at every call."""
        self._engine.stamp(handler_call_details.invocation_metadata or (), handler_call_details.method)
        return await continuation(handler_call_details)


def bind(server: grpc.aio.Server, host: str, port: int, tls: Tls | None = None) -> int:
    """Make the server listen; return the port. Raise `OSError`, with a sentence for whoever started us."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        if tls is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, tls.grpc_credentials())
    except RuntimeError as error:
        raise OSError(
            f"gRPC cannot listen on {address} ({_reason(host, port)}): choose another --grpc-port (0: any free one)."
        ) from error


def _reason(host: str, port: int) -> str:
    """Return the reason, in the words of the system; grpc keeps them to its log."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return "the address was busy a moment ago"

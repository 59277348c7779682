"""gRPC access guard: admits calls by the metadata `authorization: Bearer <key>`, and the rules of HTTP
(`http_guard`)."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc

from serving.call import text
from serving.security.access import FORWARDED, PROXIED, Access, AccessDenial, Need

PUBLIC = (
    "foreserve.v1.Metrics",
    "grpc.health.v1.Health",
    "grpc.reflection.v1alpha.ServerReflection",
    "grpc.reflection.v1.ServerReflection",
)
"""Metrics and probes, as over HTTP, and what there is to call."""

CLIENTS = {
    "foreserve.v1.OpenAI": ("*",),
    "vllm.grpc.engine.VllmEngine": (
        *("Generate", "Embed", "HealthCheck", "Abort", "GetModelInfo", "GetServerInfo", "GetLoads", "GetTokenizer"),
    ),
}
"""What clients may call; *: all that the service has. The rest is the admin's: KV events tell what others asked."""


def need_of(method: str) -> Need:
    """Return the access that /SERVICE/METHOD needs."""
    service, _, name = method.removeprefix("/").rpartition("/")
    if service in PUBLIC:
        return Need.NOTHING
    calls = CLIENTS.get(service, ())
    return Need.API_KEY if name in calls or "*" in calls else Need.ADMIN_KEY


class GrpcGuard(grpc.aio.ServerInterceptor):
    """Refuses calls that show no key that is enough for them."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, or one that refuses it; grpc asks for it at every call."""
        denied = self._denied(need_of(handler_call_details.method), handler_call_details.invocation_metadata or ())
        return await continuation(handler_call_details) if denied is None else _refusing(denied)

    def _denied(self, need: Need, metadata: Iterable[tuple[str, str | bytes]]) -> AccessDenial | None:
        told = {name for name, value in metadata if value}
        shown = next((text(value) for name, value in metadata if name == "authorization"), "")
        return self._access.denied(need, shown, lambda: PROXIED if any(name in FORWARDED for name in told) else "")


def _refusing(denied: AccessDenial) -> Any:
    """Return a handler that refuses, whatever kind the call is of, and reads nothing of what it sends."""
    code = grpc.StatusCode.UNAUTHENTICATED if denied.stranger else grpc.StatusCode.PERMISSION_DENIED
    sentence = denied.sentence.replace("`Authorization: Bearer <key>`", "the metadata `authorization: Bearer <key>`")
    return grpc.stream_stream_rpc_method_handler(_refuser(code, sentence))


def _refuser(code: grpc.StatusCode, sentence: str) -> Callable[[Any, Any], Awaitable[None]]:
    async def refuse(_requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.abort(code, sentence)

    return refuse

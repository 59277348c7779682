"""API keys over gRPC: the metadata `authorization: Bearer <key>`, by the rules of vLLM's HTTP server."""

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

import grpc

# As over HTTP, probes need no key, nor does asking what there is to call.
OPEN_SERVICES = ("grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection")


class BearerAuth(grpc.aio.ServerInterceptor):
    """Refuses calls without one of the keys."""

    def __init__(self, api_keys: Sequence[str]) -> None:
        # Digests have one length, so that comparing them tells nothing about a key, its length included.
        self._digests = [_digest(key) for key in api_keys]

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Called by grpc for every call."""
        service = handler_call_details.method.split("/")[1]
        if service in OPEN_SERVICES or self._allows(handler_call_details.invocation_metadata):
            return await continuation(handler_call_details)
        return _REFUSED

    def _allows(self, metadata: Any) -> bool:
        header = next((str(value) for name, value in metadata if name == "authorization"), "")
        scheme, _, token = header.partition(" ")
        given = _digest(token)
        matches = [secrets.compare_digest(given, digest) for digest in self._digests]
        return scheme.lower() == "bearer" and any(matches)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


async def _refuse(_request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "This server wants one of its API keys: send the metadata `authorization: Bearer <key>`.",
    )


_REFUSED: Any = grpc.unary_unary_rpc_method_handler(_refuse)

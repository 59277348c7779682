"""Services that an edge in a process of its own lets the engine core answer: the admin's, metrics, health, and what
vLLM's tells of the devices."""

from collections.abc import AsyncIterator
from typing import Any

import grpc

SERVICES = ("foreserve.v1.Admin", "foreserve.v1.Metrics", "grpc.health.v1.Health")
VLLM = "/vllm.grpc.engine.VllmEngine/"
METHODS = frozenset(VLLM + name for name in ("FlushCache", "GetServerInfo", "GetLoads", "SubscribeKvEvents"))


class CoreServices(grpc.aio.ServerInterceptor):
    """Passes calls of these services on to the engine core, by a Unix socket, as the bytes that they are."""

    def __init__(self, core: str) -> None:
        """`core`: the path of the socket."""
        self._channel = grpc.aio.insecure_channel(f"unix:{core}")

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call; grpc asks for it at every call."""
        method = handler_call_details.method
        if method not in METHODS and method.removeprefix("/").rpartition("/")[0] not in SERVICES:
            return await continuation(handler_call_details)
        call: Any = self._channel.unary_stream(method)

        async def passed(request: bytes, context: Any) -> AsyncIterator[bytes]:
            metadata = [(name, value) for name, value in context.invocation_metadata() if not name.startswith(":")]
            kept = [pair for pair in metadata if pair[0] not in ("user-agent", "te", "content-type")]
            try:
                async for answer in call(request, metadata=kept, timeout=context.time_remaining()):
                    yield answer
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))

        return grpc.unary_stream_rpc_method_handler(passed)

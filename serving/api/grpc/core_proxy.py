"""Services that an edge in a process of its own lets the engine core answer: the admin's, metrics, health, and what
vLLM's tells of the devices."""

from collections.abc import AsyncIterator
from typing import Any

import grpc

from serving.api.grpc.bounds import MOST_STREAMS

SERVICES = ("foreserve.v1.Admin", "foreserve.v1.Metrics", "grpc.health.v1.Health")
VLLM = "/vllm.grpc.engine.VllmEngine/"
METHODS = frozenset(VLLM + name for name in ("FlushCache", "GetServerInfo", "GetLoads", "SubscribeKvEvents"))
ENDLESS = ("Watch", "SubscribeKvEvents")
"""Methods whose streams last for as long as their clients like."""
MOST_ENDLESS = MOST_STREAMS // 2
"""So many of them: the others leave room for calls that end on the one connection to the engine core."""


class CoreServices(grpc.aio.ServerInterceptor):
    """Passes calls of these services on to the engine core, by a Unix socket, as the bytes that they are."""

    def __init__(self, core: str) -> None:
        """`core`: the path of the socket."""
        # Metrics of many devices are longer than what gRPC takes by itself, 4 MiB.
        options = [("grpc.max_receive_message_length", -1)]
        self._channel = grpc.aio.insecure_channel(f"unix:{core}", options)
        self._endless = 0

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call; grpc asks for it at every call."""
        method = handler_call_details.method
        if method not in METHODS and method.removeprefix("/").rpartition("/")[0] not in SERVICES:
            return await continuation(handler_call_details)
        call: Any = self._channel.unary_stream(method)

        async def passed(request: bytes, context: Any) -> AsyncIterator[bytes]:
            metadata = [(name, value) for name, value in context.invocation_metadata() if not name.startswith(":")]
            kept = [pair for pair in metadata if pair[0] not in ("user-agent", "te", "content-type")]
            is_endless = method.endswith(ENDLESS)
            if is_endless and self._endless >= MOST_ENDLESS:
                sentence = f"{MOST_ENDLESS} streams that do not end are open here: no more are taken until some end."
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, sentence)
            self._endless += is_endless
            try:
                async for answer in call(request, metadata=kept, timeout=context.time_remaining()):
                    yield answer
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
            finally:
                self._endless -= is_endless

        return grpc.unary_stream_rpc_method_handler(passed)

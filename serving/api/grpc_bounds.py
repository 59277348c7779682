"""gRPC calls within bounds: how much a client may send, how long it may take over it, and how long not read."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import grpc

from serving.api.http_protocol import connection_limit
from serving.bound_options import BoundOptions

MOST_STREAMS = 1024
MOST_METADATA_BYTES = 16 << 10
# What a client may send ahead of being read, of one message.
WINDOW_BYTES = 64 << 10
PING_EVERY_S = 60
LOOK_EVERY_S = 1.0


def channel_options(bounds: BoundOptions) -> list[tuple[str, int]]:
    """What grpc itself bounds."""
    return [
        # What is larger gets RESOURCE_EXHAUSTED before it fills the memory.
        ("grpc.max_receive_message_length", bounds.max_request_bytes),
        ("grpc.max_concurrent_streams", MOST_STREAMS),
        ("grpc.max_metadata_size", MOST_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MOST_METADATA_BYTES),
        ("grpc.max_allowed_incoming_connections", connection_limit(bounds)),
        ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
        ("grpc.server_handshake_timeout_ms", round(1000 * bounds.request_timeout_s)),
        # A peer that is gone without a word holds its streams no longer than this.
        ("grpc.keepalive_time_ms", 1000 * PING_EVERY_S),
        ("grpc.keepalive_timeout_ms", round(1000 * bounds.stall_timeout_s)),
    ]


class CallBounds(grpc.aio.ServerInterceptor):
    """Cancels calls whose request does not come, or whose answers are not read, for too long."""

    def __init__(self, bounds: BoundOptions) -> None:
        self._bounds = bounds
        self._writing: dict[asyncio.Task[Any], float] = {}
        self._watcher: asyncio.Task[None] | None = None

    async def _watch(self) -> None:
        """Cancel who does not read."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(LOOK_EVERY_S, self._bounds.stall_timeout_s / 2))
            overdue_s = loop.time() - self._bounds.stall_timeout_s
            for task in [task for task, since_s in self._writing.items() if since_s < overdue_s]:
                del self._writing[task]
                task.cancel()

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Called by grpc for every call, in the task that then serves it, before its request is there."""
        self._watcher = self._watcher or asyncio.create_task(self._watch())
        handler = await continuation(handler_call_details)
        task = asyncio.current_task()
        if handler is None or task is None or handler.request_streaming or handler.request_deserializer is None:
            return handler
        timer = asyncio.get_running_loop().call_later(self._bounds.request_timeout_s, task.cancel)
        task.add_done_callback(lambda _: timer.cancel())
        changed: dict[str, Any] = {"request_deserializer": in_time(handler.request_deserializer, timer)}
        if handler.response_streaming:
            changed["unary_stream"] = self._watched(handler.unary_stream)
        return handler._replace(**changed)

    def _watched(self, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        writing = self._writing

        async def generate(request: Any, context: Any) -> Any:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            assert task is not None
            async for response in behaviour(request, context):
                # Until grpc asks for the next one, it writes this.
                writing[task] = loop.time()
                try:
                    yield response
                finally:
                    writing.pop(task, None)

        async def write(request: Any, context: Any) -> Any:
            return await behaviour(request, WatchedContext(context, writing))

        return generate if inspect.isasyncgenfunction(behaviour) else write


def in_time(deserialize: Callable[[bytes], Any], timer: asyncio.TimerHandle) -> Callable[[bytes], Any]:
    """The same, which ends a wait for what it is given."""

    def parse(data: bytes) -> Any:
        timer.cancel()
        return deserialize(data)

    return parse


class WatchedContext:
    """A call's context that notes since when it has been writing."""

    def __init__(self, context: Any, writing: dict[asyncio.Task[Any], float]) -> None:
        self._context = context
        self._writing = writing
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, message: Any) -> None:
        """As of the context."""
        task = asyncio.current_task()
        assert task is not None
        self._writing[task] = self._loop.time()
        try:
            await self._context.write(message)
        finally:
            self._writing.pop(task, None)

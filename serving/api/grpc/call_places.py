"""Places for gRPC calls: how many there may be at a time, over all connections."""

import contextlib
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from serving.api.grpc.guard import PUBLIC

# Calls that don't end by themselves, and that anybody may make; others that anybody may; and those of clients and the
# admin that are on their way, beside as many as the queue has room for.
MOST_ENDLESS, MOST_PUBLIC, MOST_BESIDE = 512, 1024, 1024
ENDLESS = ("grpc.reflection.v1alpha.ServerReflection", "grpc.reflection.v1.ServerReflection")
WATCH = "/grpc.health.v1.Health/Watch"


def backlog_options(max_queue: int) -> list[tuple[str, int]]:
    """Return the options for the calls that have come and that nobody has looked at yet.

    gRPC cancels some of those beyond 1,000, and all beyond 3,000, without a sentence: a burst may bring as many as
    there are places, and as many again are told that there are none. `max_queue`: as `CallPlaces` takes it.
    """
    most = MOST_ENDLESS + MOST_PUBLIC + max_queue + MOST_BESIDE
    return [
        ("grpc.server.max_pending_requests", 2 * most),
        ("grpc.server.max_pending_requests_hard_limit", 3 * most),
    ]


class CallPlaces(grpc.aio.ServerInterceptor):
    """Refuses calls for which no place is left. Each kind has places of its own: no client's calls keep a probe from an
    answer."""

    def __init__(self, max_queue: int) -> None:
        """`max_queue`: the requests for which the queue has room."""
        self._most = {"endless": MOST_ENDLESS, "public": MOST_PUBLIC, "other": max_queue + MOST_BESIDE}
        self._taken = Counter[str]()

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, which then takes a place; grpc asks for it at every call. All handlers here
        have streams of requests (`CallBounds`)."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        kind, serializers = (
            kind_of(handler_call_details.method),
            (handler.request_deserializer, handler.response_serializer),
        )
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(self._placed(kind, handler.stream_stream), *serializers)
        return grpc.stream_unary_rpc_method_handler(self._placed(kind, handler.stream_unary), *serializers)

    def _placed(self, kind: str, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        async def each(requests: Any, context: Any) -> AsyncIterator[Any]:
            async with self._place(kind, context):
                async for answer in behaviour(requests, context):
                    yield answer

        async def one(requests: Any, context: Any) -> Any:
            async with self._place(kind, context):
                return await behaviour(requests, context)

        return each if inspect.isasyncgenfunction(behaviour) else one

    @contextlib.asynccontextmanager
    async def _place(self, kind: str, context: Any) -> AsyncIterator[None]:
        most = self._most[kind]
        if self._taken[kind] >= most:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"There are {most} calls of this kind, the most.")
        self._taken[kind] += 1
        try:
            yield
        finally:
            self._taken[kind] -= 1


def kind_of(method: str) -> str:
    """Return the kind of places that calls of /SERVICE/METHOD take."""
    service = method.removeprefix("/").rpartition("/")[0]
    if method == WATCH or service in ENDLESS:
        return "endless"
    return "public" if service in PUBLIC else "other"

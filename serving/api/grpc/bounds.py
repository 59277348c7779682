"""gRPC calls within bounds: how much a client may send, how long it may take over it, and how long not read."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import grpc

from serving.api.http_protocol import connection_limit
from serving.call import current_call
from serving.scenario.bound_options import BoundOptions

MOST_STREAMS = 1024
MOST_METADATA_BYTES = 16 << 10
# What a client may send ahead of being read, of one message.
WINDOW_BYTES = 64 << 10
PING_EVERY_S = 60

Metadata = Iterable[tuple[str, str | bytes]]


def channel_options(bounds: BoundOptions) -> list[tuple[str, int]]:
    """Return the options for bounds that grpc itself enforces."""
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
    """Ends calls whose request does not come, or whose answers are not read, for too long."""

    def __init__(self, bounds: BoundOptions) -> None:
        self._bounds = bounds

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, with its bounds; grpc asks for it at every call. One with one request is served
        as if it had several: only of those can be said how long they may take."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        serializers = handler.request_deserializer, handler.response_serializer
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(self._many(handler.unary_stream), *serializers)
        return grpc.stream_unary_rpc_method_handler(self._one(handler.unary_unary), *serializers)

    def _one(self, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        async def answer(requests: AsyncIterator[Any], context: Any) -> Any:
            bounded = BoundedContext(context, self._bounds.stall_timeout_s)
            response = await behaviour(await self._request(requests, bounded), bounded)
            bounded.tell()
            return response

        return answer

    def _many(self, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        async def answer(requests: AsyncIterator[Any], context: Any) -> None:
            bounded = BoundedContext(context, self._bounds.stall_timeout_s)
            request = await self._request(requests, bounded)
            try:
                if not inspect.isasyncgenfunction(behaviour):
                    await behaviour(request, bounded)
                else:
                    async with contextlib.aclosing(behaviour(request, bounded)) as responses:
                        async for response in responses:
                            await bounded.write(response)
                bounded.tell()
            except UnreadAnswer as unread:
                # A client that reads on then learns of its end; nothing is made for it meanwhile.
                await bounded.abort(grpc.StatusCode.DEADLINE_EXCEEDED, str(unread))

        return answer

    async def _request(self, requests: AsyncIterator[Any], context: "BoundedContext") -> Any:
        """Return the one request of a call; end the call if it does not come."""
        wait_s = self._bounds.request_timeout_s
        try:
            async with asyncio.timeout(wait_s):
                return await anext(requests)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"The request took longer than {wait_s:g} s.")
        except StopAsyncIteration:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The call ended without a request.")


class UnreadAnswer(Exception):
    """A client that does not read what it asked for."""


class BoundedContext:
    """A call's context whose messages have to be read in time. With what status it is ended is kept for its trace, and
    its end carries what is to be told beside the answer, whoever ends it: vLLM's servicer knows of neither."""

    def __init__(self, context: Any, stall_s: float) -> None:
        self._context = context
        self._stall_s = stall_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def tell(self) -> None:
        """Have the call end with what HTTP says in headers, of rate limits for one, as metadata."""
        if (call := current_call()) and call.answer:
            self._context.set_trailing_metadata(tuple(call.answer.items()))

    async def abort(self, code: grpc.StatusCode, details: str = "", more: Metadata = ()) -> None:
        """End the call with a status, and with `more` metadata. Raise what grpc ends it by."""
        if call := current_call():
            call.status = code.name
            more = (*call.answer.items(), *more)
        await self._context.abort(code, details, tuple(more))

    async def write(self, message: Any) -> None:
        """Write a message. Raise `UnreadAnswer` if the client does not read."""
        try:
            async with asyncio.timeout(self._stall_s):
                await self._context.write(message)
        except TimeoutError:
            raise UnreadAnswer(f"The answer was not read for {self._stall_s:g} s.") from None

"""Parse errors: bytes that are no message get INVALID_ARGUMENT, where grpc itself would say INTERNAL and log a
traceback."""

import inspect
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from serving.api.grpc.errors import StatusRefusal, refuse


class ParseErrors(grpc.aio.ServerInterceptor):
    """Parses requests leniently, and ends the call if that failed."""

    async def intercept_service(self, continuation: Any, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, made to refuse what is no message; grpc asks for it at every call."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming or handler.request_deserializer is None:
            return handler
        kind = "unary_stream" if handler.response_streaming else "unary_unary"
        parse, behaviour = _lenient(handler.request_deserializer), _checked(getattr(handler, kind))
        return handler._replace(request_deserializer=parse, **{kind: behaviour})


def _lenient(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def parse(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
            code = grpc.StatusCode.INVALID_ARGUMENT
            return StatusRefusal(code, f"The request is not the message that this method takes: {error}")

    return parse


def _checked(behaviour: Callable[..., Any]) -> Callable[..., Any]:
    async def stream(request: Any, context: Any) -> Any:
        if isinstance(request, StatusRefusal):
            await refuse(context, request)
        async for response in behaviour(request, context):
            yield response

    async def single(request: Any, context: Any) -> Any:
        if isinstance(request, StatusRefusal):
            await refuse(context, request)
        return await behaviour(request, context)

    return stream if inspect.isasyncgenfunction(behaviour) else single

"""Streams by a short way: from a request's body to vLLM's server of chats or completions, and from that to the client.

FastAPI solves dependencies and starts five tasks for a stream, which together cost a process whose caches are cold more
than a millisecond. Whatever is not a stream, or not as it should be, goes that way still.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from vllm.entrypoints.serve.engine.protocol import ErrorResponse

from serving.api.guards.body_guard import PARSED, BodyReplay

JSON, STREAM = b"application/json", b'"stream"'
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]

Create = Callable[[Any, Request], Awaitable[Any]]


def stream_shortly(routes: Iterable[Any], create: dict[str, Create], keep_alive_s: float) -> None:
    """Have those of `routes` whose paths are in `create` serve streams so, unless vLLM is to send something while there
    is no text."""
    if keep_alive_s > 0:
        return
    for route in routes:
        if made := create.get(getattr(route, "path", "")):
            route.app = StreamRoute(route, made)


class StreamRoute:
    """The ASGI application of a route of FastAPI's, as which it answers: `create` makes the answer to a request."""

    def __init__(self, route: Any, create: Create) -> None:
        self._whole, self._create = route.app, create
        (field,) = route.dependant.body_params
        # FastAPI's own, and guarded (`validation_guard`).
        self._validate = field._type_adapter.validate_python

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, whose body comes in one piece."""
        message = await receive()
        body = message["body"]
        # A body without the word has no stream: it is not worth another look.
        request = self._stream_in(body, message.get(PARSED)) if STREAM in body and is_taken(scope["headers"]) else None
        if request is None:
            await self._whole(scope, BodyReplay(body, receive), send)
            return
        try:
            async with asyncio.timeout(None) as staying:
                listening = asyncio.create_task(_leave(receive, staying))
                try:
                    await self._answer(request, scope, receive, send)
                finally:
                    listening.cancel()
        except TimeoutError:
            if not staying.expired():
                raise

    def _stream_in(self, body: bytes, parsed: Any = None) -> Any:
        """Return the request in a body, which may be `parsed`; None if it is none for a stream."""
        try:
            value = json.loads(body) if parsed is None else parsed
            if not (isinstance(value, dict) and value.get("stream")):
                return None
            request = self._validate(value, from_attributes=True)
        except (ValueError, RecursionError, ValidationError):
            # Whose sentence is for FastAPI and vLLM to say.
            return None
        # There are words for no as well.
        return request if request.stream else None

    async def _answer(self, request: Any, scope: Any, receive: Any, send: Any) -> None:
        answer = await self._create(request, Request(scope, receive))
        if isinstance(answer, ErrorResponse):
            await JSONResponse(answer.model_dump(), answer.error.code)(scope, receive, send)
        else:
            await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
            async with aclosing(answer):
                async for event in answer:
                    await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def is_taken(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether headers say that a body is JSON in the words that vLLM takes."""
    said = next((value for name, value in headers if name == b"content-type"), b"")
    return said.lower().partition(b";")[0] == JSON


async def _leave(receive: Any, staying: asyncio.Timeout) -> None:
    """End what a client waits for once it has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    staying.reschedule(asyncio.get_running_loop().time())

"""Request bodies, read whole and within bounds before the application sees them."""

from typing import Any

import msgspec

from serving.api.json_text import BadJson, parse
from serving.request_bounds import OutOfBounds, check_body

READ_BY = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose bodies are read."""
# Values in the JSON of a body, where the context asks for no more: they cost vLLM's server up to a microsecond each.
LEAST_VALUES = 1 << 16


class BodyGuard:
    """ASGI middleware: refuses bodies that no route should see."""

    def __init__(self, app: Any, context: int, places: int) -> None:
        """`context` is what a request may have of tokens, `places` what the queue has."""
        self._app = app
        self._most_values = max(LEAST_VALUES, 2 * context)
        self._places = places

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Called for each request."""
        if scope["type"] != "http" or scope["method"] not in READ_BY:
            await self._app(scope, receive, send)
            return
        body = await read(receive)
        if body is None:
            return
        try:
            if is_json(scope["headers"]):
                check_body(parse(body, self._most_values), self._places)
        except BadJson as bad:
            await refuse(send, 400, str(bad), bad.field)
            return
        except OutOfBounds as bad:
            await refuse(send, 400, str(bad), bad.parameter)
            return
        await self._app(scope, Replay(body, receive), send)


def is_json(headers: Any) -> bool:
    """Tell whether a body says that it is JSON; of others vLLM's server complains."""
    return any(name == b"content-type" and b"json" in value.lower() for name, value in headers)


async def read(receive: Any) -> bytes | None:
    """A body, whole; None if its client has gone."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


class Replay:
    """`receive` for the application: the body at once, then whatever comes."""

    def __init__(self, body: bytes, receive: Any) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Any:
        """The next message."""
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


KINDS = {
    400: "BadRequestError",
    408: "RequestTimeoutError",
    413: "RequestTooLargeError",
    503: "ServiceUnavailableError",
}


async def refuse(send: Any, status: int, sentence: str, field: str | None = None) -> None:
    """Answer with an error, as OpenAI's API words it."""
    error = {"message": sentence, "type": KINDS[status], "param": field, "code": status}
    body = msgspec.json.encode({"error": error})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

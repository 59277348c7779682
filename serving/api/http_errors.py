"""Errors that HTTP is answered with before the application has seen the request."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


async def send_error(
    send: Any, status: int, error: Mapping[str, Any], headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer an ASGI request with the `error` of OpenAI's API, as JSON, and with `headers` beside those of the body."""
    body = msgspec.json.encode({"error": error})
    described = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": described})
    await send({"type": "http.response.body", "body": body})

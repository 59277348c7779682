"""What an edge in a process of its own lets the engine core answer: probes, metrics, and the admin's calls."""

from collections.abc import AsyncIterator
from typing import Any

import httpx

from serving.api.http_errors import send_error

PATHS = frozenset(("/metrics", "/dcgm/metrics", "/health", "/ready", "/load", "/ui"))
FOLDER = "/foreserve/"
# Of one connection alone.
NOT_PASSED = (b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer")
# The core answers within this, in real seconds, or the answer is 503; the longest is to add a device.
LIMIT_S = 120.0
CONNECTIONS = 64


class CoreProxy:
    """ASGI middleware: passes requests that are the engine core's on to it, by a Unix socket."""

    def __init__(self, app: Any, core: str) -> None:
        """`core`: the path of the socket."""
        self._app = app
        limits = httpx.Limits(max_connections=CONNECTIONS)
        transport = httpx.AsyncHTTPTransport(uds=core, limits=limits)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://core", timeout=LIMIT_S)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path in PATHS or path.startswith(FOLDER)):
            await self._app(scope, receive, send)
            return
        try:
            answer = await self._passed(scope, receive)
        except httpx.HTTPError as error:
            sentence = f"The engine core of this server does not answer ({type(error).__name__})."
            await send_error(send, 503, {"message": sentence, "type": "ServiceUnavailable", "param": None, "code": 503})
            return
        headers = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() not in NOT_PASSED]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": b"".join([part async for part in answer.aiter_raw()])})
        await answer.aclose()

    async def _passed(self, scope: Any, receive: Any) -> httpx.Response:
        query = scope.get("query_string", b"")
        target = scope["raw_path"].partition(b"?")[0] + (b"?" + query if query else b"")
        headers = [(name, value) for name, value in scope["headers"] if name not in NOT_PASSED]
        url = httpx.URL("http://core", raw_path=target)
        wanted = self._client.build_request(scope["method"], url, headers=headers, content=_body(receive))
        return await self._client.send(wanted, stream=True)


async def _body(receive: Any) -> AsyncIterator[bytes]:
    """Yield the body of a request, as it comes."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise httpx.ReadError("The client has gone.")
        yield message.get("body", b"")
        if not message.get("more_body"):
            return

"""Core proxy: passes probes, metrics and the admin's calls of an edge in a process of its own on to the engine core,
which also describes them all."""

from typing import Any

import httpx

from serving.api.guards.body_guard import READ_BY, BodyGuard
from serving.api.http_errors import send_error
from serving.scenario.bound_options import BoundOptions

PATHS = frozenset(
    (
        *("/metrics", "/dcgm/metrics", "/health", "/ready", "/load", "/ui", "/", "/openapi.json"),
        *("/kv_event_sources", "/reset_prefix_cache"),
        *("/pause", "/resume", "/is_paused", "/sleep", "/wake_up", "/is_sleeping", "/release_kv_cache_memory"),
    )
)
FOLDER = "/foreserve/"
# Of one connection alone: of the client's to this edge, or of this edge's to the core.
NOT_PASSED = (b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer", b"content-length")
# What this edge says of itself.
NOT_PASSED_BACK = (*NOT_PASSED, b"date", b"server")
# The core answers within this, in real seconds, or the answer is 503; the longest is to add a device.
LIMIT_S = 120.0
# But for a pause, which may wait for what runs to end: what that takes, only its requests know.
ENDLESS = "/pause"
CONNECTIONS = 64


class CoreProxy:
    """ASGI middleware: passes requests that are the engine core's on to it, by a Unix socket."""

    def __init__(self, app: Any, core: str, bounds: BoundOptions, context: int, places: int) -> None:
        """`core`: the path of the socket. `bounds`, `context` and `places`: as for `BodyGuard`."""
        self._app = app
        # A connection to the core is taken when a request is here as a whole: who is slow keeps none from others.
        self._passing = BodyGuard(self._pass, bounds, context, places)
        limits = httpx.Limits(max_connections=CONNECTIONS)
        transport = httpx.AsyncHTTPTransport(uds=core, limits=limits)
        self._client = httpx.AsyncClient(transport=transport)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or leave it to the application."""
        path = scope.get("path", "")
        is_core = scope["type"] == "http" and ((path.rstrip("/") or "/") in PATHS or path.startswith(FOLDER))
        await (self._passing if is_core else self._app)(scope, receive, send)

    async def _pass(self, scope: Any, receive: Any, send: Any) -> None:
        # A body that no route reads is not waited for.
        content = (await receive())["body"] if scope["method"] in READ_BY else b""
        try:
            answer, body = await self._answer(scope, content)
        except httpx.HTTPError as error:
            sentence = f"The engine core of this server does not answer ({type(error).__name__})."
            await send_error(send, 503, {"message": sentence, "type": "ServiceUnavailable", "param": None, "code": 503})
            return
        headers = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() not in NOT_PASSED_BACK]
        headers.append((b"content-length", answer.headers.get("content-length", str(len(body))).encode()))
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Any, content: bytes) -> tuple[httpx.Response, bytes]:
        """Return the core's answer with its body, read whole: who is slow to take it keeps no connection either."""
        query = scope.get("query_string", b"")
        target = scope["raw_path"].partition(b"?")[0] + (b"?" + query if query else b"")
        headers = [(name, value) for name, value in scope["headers"] if name not in NOT_PASSED]
        url = httpx.URL("http://core", raw_path=target)
        limit = httpx.Timeout(LIMIT_S, read=None) if url.path.rstrip("/") == ENDLESS else httpx.Timeout(LIMIT_S)
        # Without the headers that httpx would add.
        wanted = httpx.Request(
            scope["method"], url, headers=headers, content=content or None, extensions={"timeout": limit.as_dict()}
        )
        answer = await self._client.send(wanted, stream=True)
        try:
            return answer, b"".join([part async for part in answer.aiter_raw()])
        finally:
            await answer.aclose()

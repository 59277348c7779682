"""Whom HTTP lets in: the outermost of all, which knows a few paths, and denies the rest without a key.

vLLM's own guard knows what to close, by how paths begin; whatever it doesn't know is open.
"""

from typing import Any

from serving.api.http_errors import send_error
from serving.security.access import FORWARDED, KEYLESS, PROXIED, Access, AccessDenial, Need, is_loopback

PUBLIC = frozenset(
    (
        *("/health", "/ready", "/ping", "/version", "/load", "/metrics", "/dcgm/metrics", "/ui", "/"),
        *("/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"),
    )
)
"""For everybody, to read: probes, figures, and what there is to call. What a scraper sees tells of no request."""

INFERENCE = ("/v1/", "/v2/", "/inference/", "/cohere/")
"""Where OpenAI's API is, and what vLLM has beside it: for clients."""

CLIENTS = frozenset(
    (
        *("/tokenize", "/detokenize", "/invocations", "/generative_scoring", "/generate"),
        *("/foreserve/v1/status", "/foreserve/v1/history"),
        *("/classify", "/embed", "/pooling", "/rerank", "/score"),
    )
)
"""For clients as well."""

NOT_CLIENTS = frozenset(("/v1/load_lora_adapter", "/v1/unload_lora_adapter"))
"""What isn't for them though it is among `INFERENCE`: it changes the server."""

READING = ("GET", "HEAD")


def need_of(scope: Any) -> Need:
    """Return what it takes to be let in: the admin's key for all that isn't known to need less.

    A path has to be that of a route, letter by letter: whatever is written in another way (//, .., a slash at the end)
    may need more than it had to, and never less. `path` has no percent signs any more, and routes are found by it.
    """
    path, mounted = scope["path"], scope.get("root_path", "")
    if mounted:
        return Need.ADMIN_KEY
    if path in PUBLIC and scope.get("method") in READING:
        return Need.NOTHING
    is_client = path in CLIENTS or path in PUBLIC or (path.startswith(INFERENCE) and path not in NOT_CLIENTS)
    if is_client and is_preflight(scope):
        return Need.NOTHING
    return Need.API_KEY if is_client else Need.ADMIN_KEY


def is_preflight(scope: Any) -> bool:
    """Tell whether a browser asks what a page from elsewhere may send, which it does without a key: vLLM's middleware
    answers that, and no route sees it."""
    if scope.get("method") != "OPTIONS":
        return False
    return all(header(scope, name) for name in (b"origin", b"access-control-request-method"))


class HttpGuard:
    """ASGI middleware: lets in who may come in, and tells others so as OpenAI does."""

    def __init__(self, app: Any, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if (denied := self._denied(scope)) is None:
            # Probes ask by HEAD as well, which most routes do not know; uvicorn leaves out the body.
            is_head = scope.get("method") == "HEAD" and scope["path"] in PUBLIC
            await self._app(scope | {"method": "GET"} if is_head else scope, receive, send)
        elif scope["type"] == "http":
            await refuse(denied, send)
        else:
            # Before it was accepted: the client sees a handshake that came to 403.
            await send({"type": "websocket.close", "code": 1008, "reason": denied.sentence[:120]})

    def _denied(self, scope: Any) -> AccessDenial | None:
        return self._access.denied(need_of(scope), header(scope, b"authorization"), lambda: strange(scope))


def strange(scope: Any) -> str:
    """Return why a request isn't from this machine, though it came from it: a browser here sent it for a page from
    elsewhere, or a proxy for its own client. "" if it looks as if it were."""
    host = header(scope, b"host")
    if not is_loopback(_name_in(host)):
        return f"{KEYLESS} be for this machine by a name of its own, not for {host[:100]!r}."
    origin = header(scope, b"origin")
    if origin and not is_loopback(_name_in(origin.partition("://")[2])):
        return f"{KEYLESS} not come from a page of {origin[:100]!r}."
    return PROXIED if any(header(scope, name.encode()) for name in FORWARDED) else ""


def _name_in(authority: str) -> str:
    """Return the host in HOST:PORT."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


def header(scope: Any, wanted: bytes) -> str:
    """Return the first header of a name; empty if there is none."""
    return next((value.decode("latin-1") for name, value in scope.get("headers", ()) if name.lower() == wanted), "")


async def refuse(denied: AccessDenial, send: Any) -> None:
    """Answer with OpenAI's error, and without having read what was sent."""
    status, code = (401, "invalid_api_key") if denied.stranger else (403, "insufficient_permissions")
    error = {"message": denied.sentence, "type": "invalid_request_error", "param": None, "code": code}
    await send_error(send, status, error, [(b"www-authenticate", b"Bearer")] if denied.stranger else [])

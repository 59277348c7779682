"""Request bodies, read whole and within bounds before the application sees them."""

import asyncio
from typing import Any

from serving.admission.request_options import options_in
from serving.api.guards import responses_guard
from serving.api.guards.json_text import BadJson, most_values, parse
from serving.api.http_errors import send_error
from serving.call import TEXT_ROUTES, current_call
from serving.edge.body_bounds import check_body
from serving.edge.request_bounds import OutOfBounds
from serving.scenario.bound_options import BoundOptions

READ_BY = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose bodies are read."""
# Bodies that are not here yet may take so many times the largest one, all together. A small one is always taken.
ALL_COMING = 32
SMALL_BYTES = 64 << 10
# What is answered with as many tokens as it has keeps the event loop busy for some 0.2 ms a KiB: routes by their end.
MOST_OF = dict.fromkeys(("tokenize", "render", "derender"), 160 << 10)
KINDS = {408: "RequestTimeoutError", 413: "RequestTooLargeError", 503: "ServiceUnavailableError"}
OURS = "/foreserve/v1/"
GONE = {"type": "http.disconnect"}
PARSED = "foreserve.parsed"
"""Beside a body in its message: what it says in JSON, so that nobody need parse it again."""


class UnreadBody(Exception):
    """A body that is not read to its end, and why: `status`."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class BodyGuard:
    """ASGI middleware: refuses bodies that no route should see."""

    def __init__(self, app: Any, bounds: BoundOptions, context: int, places: int) -> None:
        """`context` is what a request may have of tokens, `places` what the queue has."""
        self._app = app
        self._bounds = bounds
        self._most_values = most_values(context)
        self._places = places
        self._coming = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Read the body of a request, and pass it on or refuse it."""
        if scope["type"] != "http" or scope["method"] not in READ_BY:
            await self._app(scope, receive, send)
            return
        try:
            if (body := await self._read(scope["headers"], receive)) is None:
                return
            self._check_route(scope["path"], len(body))
            parsed = None
            if is_json(scope["headers"]):
                parsed = parse(body, self._most_values)
                self._check(scope["path"], parsed)
                keep_options(scope["path"], parsed)
        except UnreadBody as unread:
            await refuse(send, unread.status, str(unread))
        except BadJson as bad:
            await refuse(send, 400, str(bad), bad.field)
        except OutOfBounds as bad:
            await refuse(send, 400, str(bad), bad.parameter)
        else:
            await self._app(scope, BodyReplay(body, receive, parsed), send)

    def _check(self, path: str, body: Any) -> None:
        # Our own routes read their bodies into types, and say better what they want.
        if path.startswith(OURS):
            return
        check_body(body, self._places)
        if path == responses_guard.PATH and isinstance(body, dict):
            responses_guard.check_input(body.get("input"))

    def _check_route(self, path: str, size: int) -> None:
        if size > (most := MOST_OF.get(path.rpartition("/")[2], size)):
            raise UnreadBody(413, f"The body of a request for {path} may have {most} bytes.")

    async def _read(self, headers: Any, receive: Any) -> bytes | None:
        """Read a body, whole; return None if its client has gone."""
        said = next((value for name, value in headers if name == b"content-length"), b"0")
        self._check_size(int(said) if said.isdigit() else 0)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._bounds.request_timeout_s):
                while (message := await receive()) != GONE:
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._coming += len(parts[-1])
                    self._check_size(size)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise UnreadBody(408, f"The body took longer than {self._bounds.request_timeout_s:g} s.") from None
        finally:
            self._coming -= size
        return None

    def _check_size(self, size: int) -> None:
        most = self._bounds.max_request_bytes
        if size > most:
            raise UnreadBody(413, f"The body may have {most} bytes.")
        if size > SMALL_BYTES and self._coming > ALL_COMING * most:
            raise UnreadBody(503, "Too many large bodies are coming in at once: try again in a moment.")


def is_json(headers: Any) -> bool:
    """Tell whether a body says that it is JSON; of others vLLM's server complains."""
    return any(name == b"content-type" and b"json" in value.lower() for name, value in headers)


def keep_options(path: str, body: Any) -> None:
    """Keep our fields of a body for its call, where vLLM's own types would drop them; others are read once vLLM has
    parsed them (`BodyOptions`)."""
    call = current_call()
    if call is not None and not TEXT_ROUTES.get(path, True) and isinstance(body, dict):
        call.body = options_in(body)


class BodyReplay:
    """`receive` for the application: the body at once, with what it says if that is `parsed`, then whatever comes."""

    def __init__(self, body: bytes, receive: Any, parsed: Any = None) -> None:
        self._body: dict[str, Any] | None = {"type": "http.request", "body": body, "more_body": False, PARSED: parsed}
        self._receive = receive

    async def __call__(self) -> Any:
        """Return the next message."""
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return body


async def refuse(send: Any, status: int, sentence: str, field: str | None = None) -> None:
    """Answer with an error, as OpenAI's API words it."""
    error = {"message": sentence, "type": KINDS.get(status, "BadRequestError"), "param": field, "code": status}
    await send_error(send, status, error, [(b"retry-after", b"1")] if status == 503 else [])

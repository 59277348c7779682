"""HTTP/1.1 transport, as thin as it can be: client and server share the machine.

A chunk costs one `data_received`, httptools' parser and one small JSON, and it is stamped before anything else happens
to it. Calls that need no timestamps use httpx.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from time import monotonic
from typing import Any, cast

import httptools
import httpx
import msgspec

from serving.load.client import NO_MESSAGE, RequestTimes
from serving.load.options import LoadError, LoadOptions
from serving.load.request import LoadRequest, body
from serving.load.sse import EndlessLine, EventReader, message_of
from serving.security.bearer import bearer

ROUTES = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
LONGEST_ERROR_BYTES = 65536
METRICS_TIMEOUT_S = 10
IDLE_CLOSE_S = 1.0
"""Within which a request learns that its connection had been closed before it."""


class ConnectionLost(ConnectionError):
    """The connection ended before the response did."""


class AnswerCut(ConnectionLost):
    """It ended within the response."""


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time; httptools calls its `on_...` methods."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.done: asyncio.Future[None] | None = None

    async def exchange(self, request: bytes, times: RequestTimes) -> None:
        """Send the request and read its response into `times`. Raise ConnectionLost if that is cut short."""
        self.parser = httptools.HttpResponseParser(self)
        self.reader = EventReader(times)
        self.status = 0
        self.error = b""
        self.keep_alive = False
        self.at_s = 0.0
        if self.transport is None or self.transport.is_closing():
            raise ConnectionLost("connection closed")
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            await self.done
        finally:
            self.done = None

    @property
    def reusable(self) -> bool:
        """Tell whether the next request may use this connection."""
        return self.keep_alive and self.transport is not None and not self.transport.is_closing()

    def close(self) -> None:
        """Close at once, which also tells the server that nobody reads on."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of a connection that asyncio has made."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name.

    def data_received(self, data: bytes) -> None:
        """Feed the parser every piece that asyncio brings; the hot path."""
        self.at_s = monotonic()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._finish(self._lost(f"not an HTTP response: {error}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish the answer of a connection that asyncio has lost."""
        self.transport = None
        # Without a length, the end of the connection is the end of the body; `[DONE]` says that it was whole, and of a
        # refusal its status is enough.
        whole = self.done is not None and (self.reader.done or self.status not in (0, 200))
        self._finish(None if whole else self._lost(str(exc or "the server closed the connection")))

    def on_headers_complete(self) -> None:
        """Take the status that httptools has read."""
        self.status = self.parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Read a piece of the body that httptools has found: of chunks, or of an error."""
        if self.status == 200:
            try:
                self.reader.feed(self.at_s, body)
            except EndlessLine as error:
                self._finish(AnswerCut(str(error)))
                self.close()
        elif len(self.error) < LONGEST_ERROR_BYTES:
            self.error += body

    def on_message_complete(self) -> None:
        """Finish the answer that httptools has whole."""
        self.keep_alive = self.parser.should_keep_alive()  # Asked later, the parser has forgotten the headers.
        self.reader.end(self.at_s)
        self._finish(None)

    def _lost(self, why: str) -> ConnectionLost:
        return AnswerCut(why) if self.done is not None and self.status else ConnectionLost(why)

    def _finish(self, error: Exception | None) -> None:
        if self.done is None or self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class HttpTransport:
    """A transport over kept-alive HTTP/1.1 connections, one for each request in flight."""

    def __init__(self, options: LoadOptions) -> None:
        self.options, self.address = options, options.address
        self.tls = options.trust.context() if self.address.scheme == "https" else None
        self.idle: deque[Connection] = deque()
        self._head = lru_cache(self._request_head)
        self._encode = msgspec.json.Encoder().encode

    async def models(self) -> Sequence[str]:
        """Return the names under /v1/models. Raise LoadError if nothing answers there, or no list of models."""
        url = f"{self.address.base_url}/v1/models"
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=30, verify=self.tls or True) as client:
                reply = await client.get(url, headers=bearer(self.options.api_key))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise LoadError(f"Nothing answers at {self.options.url}: {error or type(error).__name__}.") from error
        if reply.status_code != 200:
            said = error_text(reply.content)
            raise LoadError(f"{url} answered {reply.status_code}: {said} Name the model with --model.")
        try:
            return [model["id"] for model in reply.json()["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise LoadError(f"{url} is not an OpenAI model list.") from error

    async def stream(self, request: LoadRequest, model: str, times: RequestTimes) -> None:
        """Send the request and fill `times`."""
        content = self._encode(body(request, self.options, model))
        head = self._head(request.headers, request.api_key or self.options.api_key)
        message = head + b"%d\r\n\r\n" % len(content) + content
        try:
            connection = await self._exchange(message, times)
        except AnswerCut as error:
            return times.fail("stream", str(error))
        except OSError as error:
            return times.fail("connection", _plain(error))
        if connection.status != 200:
            times.fail(str(connection.status), error_text(connection.error))
        elif times.outputs_s and not (connection.reader.done or connection.reader.finished):
            # As proxies end the stream of a server that is gone.
            times.fail("stream", "the stream ended before the answer did: without a finish_reason, and without [DONE]")
        if connection.reusable:
            self.idle.append(connection)
        else:
            connection.close()

    async def metrics(self) -> str | None:
        """Return the text under /metrics; None if nothing answers there."""
        return await metrics_at(f"{self.address.base_url}/metrics", self.options)

    async def close(self) -> None:
        """Close the idle connections; busy ones close with their requests."""
        while self.idle:
            self.idle.pop().close()

    async def _exchange(self, message: bytes, times: RequestTimes) -> Connection:
        """Return the connection that brought the whole response. Raise OSError if none did."""
        while True:
            reused = bool(self.idle)
            connection = self.idle.pop() if reused else await self._open()
            sent_s = monotonic()
            try:
                await connection.exchange(message, times)
            except ConnectionLost:
                # The server had closed it while it was idle: that says nothing about this request. What is lost later
                # the server had: sent again it would be served twice, and counted once.
                if not reused or connection.status or monotonic() > sent_s + IDLE_CLOSE_S:
                    raise
            except asyncio.CancelledError:
                connection.close()
                raise
            else:
                return connection

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, self.address.host, self.address.port, ssl=self.tls)
        return connection

    def _request_head(self, headers: tuple[tuple[str, str], ...], api_key: str | None) -> bytes:
        lines = [
            f"POST {self.address.path}{ROUTES[self.options.endpoint]} HTTP/1.1",
            f"Host: {self.address.netloc}",
            "Content-Type: application/json",
            "Accept: text/event-stream",
            "User-Agent: foreserve-load",
            *(f"{name}: {value}" for name, value in (*headers, *bearer(api_key).items())),
            "Content-Length: ",
        ]
        return "\r\n".join(lines).encode()


async def metrics_at(url: str, options: LoadOptions) -> str | None:
    """Return the text at the URL of a server's metrics; None if nothing answers there."""
    # Without TLS, False spares the event loop the 22 ms of reading certificates amid a run.
    verify = options.trust.context() if url.startswith("https:") else False
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=METRICS_TIMEOUT_S, verify=verify) as client:
            reply = await client.get(url, headers=bearer(options.api_key))
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    return reply.text if reply.status_code == 200 else None


def error_text(content: bytes) -> str:
    """Return the message in an error response."""
    try:
        value: Any = msgspec.json.decode(content)
    except (ValueError, RecursionError):  # No JSON: anything may answer at that address.
        value = content.decode(errors="replace").strip()
    return message_of(value) or NO_MESSAGE


def _plain(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__

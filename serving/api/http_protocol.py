"""HTTP connections within bounds, on top of uvicorn's: it has none for heads, for who does not read, or for strangers.

A connection waits (for a head), is served, or lingers: its answer is written, and what the client still sends is read
and thrown away for a moment, because a connection that is closed over unread bytes takes the answer with it.
"""

import asyncio
import resource
import socket
import struct
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from serving.api.guards.request_parser import RequestParser
from serving.api.streams.wire import HttpWire
from serving.scenario.bound_options import BoundOptions

# Where an application finds what writes past it.
WIRE = "foreserve.wire"
MOST_HEAD_BYTES = 64 << 10
MOST_HEADERS = 100
# Requests that wait for the one before them: each takes a hundred times as much memory as its bytes. They are read on,
# so that a client that leaves meanwhile is noticed, and may have so many bytes.
MOST_PIPELINED = 64
MOST_PIPELINED_BYTES = 64 << 10
LINGER_S = 1.0
# Of an answer, in the system's buffer; the transport has 64 KiB of its own.
UNREAD_BYTES = 128 << 10
# Where Linux's `struct tcp_info` has `tcpi_bytes_acked`.
BYTES_ACKED, BYTES_ACKED_AT = struct.Struct("=Q"), 120
# Of the files that this process may have open, connections leave a half to everything else.
SHARE_OF_FILES = 2


class BoundedProtocol(HttpToolsProtocol):
    """A connection that ends if its client sends too much, too slowly, or does not read."""

    def __init__(self, bounds: BoundOptions, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._requests = RequestParser(self)
        self.parser = self._requests  # type: ignore[assignment]  # in the place of httptools' own
        self._bounds = bounds
        self._most_connections = connection_limit(bounds)
        self._in_head = self._is_refused = self._has_whole_request = False
        self._head_bytes = self._bare_bytes = self._pipelined_bytes = 0
        self._served: Any = None  # uvicorn's cycle of the request that is being answered
        self.waits_since_s = 0.0
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self.app = partial(self._serve, self.app)

    async def _serve(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """Call the application, and tell a client whose request is answered unread that its connection ends."""
        self._served = cycle = send.__self__

        async def tell(message: Any) -> None:
            is_whole = self._has_whole_request or self.cycle is not cycle
            is_unread = message["type"] == "http.response.start" and not is_whole
            keeps = cycle.keep_alive
            # So uvicorn says that it closes; but we do, a moment after the answer (`on_response_complete`).
            cycle.keep_alive = keeps and not is_unread
            await send(message)
            cycle.keep_alive = keeps if is_unread else cycle.keep_alive

        await app(scope, receive, tell)

    def connection_made(self, transport: Any) -> None:
        """Bound a connection made by asyncio: one too many takes the place of whoever has said nothing for longest."""
        super().connection_made(transport)
        self._bound_socket()
        self._await_head()
        if len(self.connections) > self._most_connections:
            self._make_room()

    def _bound_socket(self) -> None:
        """Have the system hold little of what is not read, and end who takes none of it, or is gone without a word."""
        # On a Unix socket there is no such thing as the second.
        with suppress(OSError):
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES)
            timeout_ms = round(1000 * self._bounds.stall_timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)

    def _make_room(self) -> None:
        others = [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]
        # One that is closing is still here, and has made room for another one already.
        if idle := [each for each in others if each.is_waiting and not each.transport.is_closing()]:
            min(idle, key=lambda each: each.waits_since_s)._give_way()
        else:
            sentence = f"All {self._most_connections} connections are taken: try again in a moment."
            self._refuse(503, sentence, ((b"retry-after", b"1"),))

    def _give_way(self) -> None:
        """End an idle connection, soon even if its client, over TLS, does not say that it has heard so."""
        self.transport.close()
        self.loop.call_later(LINGER_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers of a connection that asyncio has lost, and tell whoever answers it: uvicorn tells the newest
        request alone."""
        self._disarm_head()
        self._resumed()
        super().connection_lost(exc)
        for cycle in (self._served, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    @property
    def is_refused(self) -> bool:
        """Tell whether nothing more that comes is read."""
        return self._is_refused

    @property
    def is_waiting(self) -> bool:
        """Tell whether no request of this connection is being served."""
        return not self._is_refused and (self.cycle is None or bool(self.cycle.response_complete))

    def data_received(self, data: bytes) -> None:
        """Take bytes from asyncio, and refuse a head that is too large. Trailers of a body, which the parser keeps as
        it does headers, end the connection if they are."""
        if self._is_refused:
            return
        self._bare_bytes += len(data)
        self._pipelined_bytes = self._pipelined_bytes + len(data) if self.pipeline else 0
        super().data_received(data)
        if self.parser is None or self._is_refused:
            return
        if self.pipeline:
            self.flow.resume_reading()
        self._head_bytes = self._head_bytes + len(data) if self._in_head else 0
        if self._head_bytes > MOST_HEAD_BYTES or (self._in_head and len(self.headers) > MOST_HEADERS):
            self._refuse_head()
        elif self._bare_bytes > MOST_HEAD_BYTES or self._pipelined_bytes > MOST_PIPELINED_BYTES:
            self._drop()
        elif self._head_timer is None and self.timeout_keep_alive_task is None and self.is_waiting:
            self._await_head()

    def on_message_begin(self) -> None:
        """Note that the parser begins a message, and await its head."""
        super().on_message_begin()
        self._in_head, self._has_whole_request = True, False
        if self._head_timer is None:
            self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header from the parser, a length without the zeros before it: their number is not bounded there, and
        Python reads 4300 digits."""
        super().on_header(name, value.lstrip(b"0") or b"0" if name.lower() == b"content-length" else value)

    def on_headers_complete(self) -> None:
        """Note that the parser has the whole head, and refuse one that is too large, or one too many that waits."""
        self._in_head = False
        self._disarm_head()
        # What comes in one piece is parsed before it is counted.
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if len(self.headers) > MOST_HEADERS or size > MOST_HEAD_BYTES:
            self._refuse_head()
        elif len(self.pipeline) >= MOST_PIPELINED:
            self._drop()
        elif not self._is_refused and not self._requests.stops:
            super().on_headers_complete()
            self.scope[WIRE] = HttpWire(self.cycle)  # type: ignore[literal-required]  # ours, beside those of ASGI

    def on_body(self, body: bytes) -> None:
        """Take a part of the body from the parser, unless the request is refused."""
        self._bare_bytes = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the parser has the whole request."""
        self._bare_bytes = 0
        self._has_whole_request = True
        if not self._is_refused and not self._requests.stops:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Linger if uvicorn has answered a request that is not whole: nobody will read the rest of it."""
        super().on_response_complete()
        if not self._has_whole_request and self.is_waiting:
            self._linger()

    def pause_writing(self) -> None:
        """Start the stall timer, as asyncio says that the client is slower than what is written to it."""
        super().pause_writing()
        self._await_reading()

    def _await_reading(self) -> None:
        wait_s, taken = self._bounds.stall_timeout_s, self._bytes_taken()
        self._stall_timer = self.loop.call_later(wait_s, self._end_if_stalled, taken)

    def _end_if_stalled(self, taken_before: int) -> None:
        """End who has taken nothing since; who reads slowly, if all the time, has another while."""
        if self._bytes_taken() > taken_before:
            self._await_reading()
        else:
            self.transport.abort()

    def _bytes_taken(self) -> int:
        """Return how many bytes the client's system has taken, which is as many as the client has room for."""
        # A Unix socket does not say, and a kernel that lacks the field says less.
        with suppress(OSError, struct.error):
            connection = self.transport.get_extra_info("socket")
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED_AT + BYTES_ACKED.size)
            return int(BYTES_ACKED.unpack_from(info, BYTES_ACKED_AT)[0])
        return 0

    def resume_writing(self) -> None:
        """Stop the stall timer, as asyncio says that the client has read most of it."""
        self._resumed()
        super().resume_writing()

    def _resumed(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _await_head(self) -> None:
        self.waits_since_s = self.loop.time()
        self._head_timer = self.loop.call_later(self._bounds.request_timeout_s, self._head_is_late)

    def _disarm_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        limit = f"{self._bounds.request_timeout_s:g} s"
        self._refuse(408, f"The headers of a request took longer than {limit}.")

    def _refuse_head(self) -> None:
        self._refuse(431, f"A request may have {MOST_HEADERS} headers, and {MOST_HEAD_BYTES >> 10} KiB of them.")

    def _refuse(self, status: int, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        """Answer without the application, and end the connection."""
        if self._is_refused or self.transport.is_closing():
            return
        # An answer that is being written would be cut in two.
        if not self.is_waiting:
            self.transport.abort()
            return
        self._is_refused = True
        self._disarm_head()
        error = {"message": sentence, "type": "BadRequestError", "param": None, "code": status}
        body = msgspec.json.encode({"error": error})
        said = (
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *headers,
        )
        head = b"".join(name + b": " + value + b"\r\n" for name, value in said)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self._linger()

    def _drop(self) -> None:
        """End the connection at once, and whatever it was being answered."""
        self._is_refused = True
        self.transport.abort()

    def _linger(self) -> None:
        self._is_refused = True
        self._unset_keepalive_if_required()
        self.loop.call_later(LINGER_S, self.transport.close)


def connection_limit(bounds: BoundOptions) -> int:
    """Return how many connections the bounds allow, and the system has files for."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return bounds.max_connections if files < 0 else max(1, min(bounds.max_connections, files // SHARE_OF_FILES))


def handshake_limit(bounds: BoundOptions) -> int:
    """Return how many connections may be there without TLS: half as many as those with it, so that files are left."""
    return max(1, connection_limit(bounds) // 2)

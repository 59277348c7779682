"""HTTP clients that send too much, too slowly, or do not read: each is told so, and none holds the server's memory."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from select import select
from socket import SO_RCVBUF, SOL_SOCKET, create_connection, socket
from typing import Any

import pytest
import uvicorn

from serving.api.guards.body_guard import ALL_COMING, BodyGuard
from serving.api.http_protocol import LINGER_S, MOST_HEAD_BYTES, MOST_HEADERS, BoundedProtocol
from serving.scenario.bound_options import BoundOptions

BOUNDS = BoundOptions(max_request_bytes=100_000, max_connections=8, request_timeout_s=1.0, stall_timeout_s=0.5)
# For who is to stay, however long a busy machine takes.
PATIENT = replace(BOUNDS, request_timeout_s=60.0, stall_timeout_s=60.0)
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


class App:
    """Answers with how much it was sent; to GET without an end."""

    def __init__(self) -> None:
        self.streams = self.ended = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        headers = [(b"content-type", b"text/plain")]
        if scope["method"] == "GET":
            self.streams += 1
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            stream = asyncio.ensure_future(self._stream(send))
            while (await receive())["type"] != "http.disconnect":
                pass
            stream.cancel()
            self.ended += 1
            return
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": str(len(body)).encode()})

    async def _stream(self, send: Any) -> None:
        while True:
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
            await asyncio.sleep(0.0005)


class Bounded:
    """A server of `App`, in a thread."""

    def __init__(self, bounds: BoundOptions = BOUNDS) -> None:
        self.app = App()
        self.guard = BodyGuard(self.app, bounds, 1024, 64)
        config = uvicorn.Config(
            self.guard,
            port=0,
            log_config=None,
            lifespan="off",
            timeout_keep_alive=1,
            http=partial(BoundedProtocol, bounds),
            ws="none",  # type: ignore[arg-type]
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run)

    @property
    def port(self) -> int:
        return int(self.server.servers[0].sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)


@pytest.fixture
def bounded(request: pytest.FixtureRequest) -> Iterator[Bounded]:
    served = Bounded(getattr(request, "param", BOUNDS))
    served.thread.start()
    while not served.server.started:
        time.sleep(0.01)
    yield served
    served.server.force_exit = served.server.should_exit = True
    served.thread.join(5)


def connect(bounded: Bounded, sent: bytes = b"") -> socket:
    client = create_connection(("127.0.0.1", bounded.port))
    client.settimeout(30)
    client.sendall(sent)
    return client


def answer(client: socket) -> tuple[int, dict[str, Any]]:
    """The status of what a client is answered before its connection ends, and the error."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while more := client.recv(65536):
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), dict(json.loads(body)["error"])


def settled(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def serves(bounded: Bounded) -> None:
    """Somebody else is served as if nothing was the matter."""
    client = connect(bounded, POST + b"Content-Length: 2\r\n\r\n{}")
    assert client.recv(1000).startswith(b"HTTP/1.1 200")
    client.close()


def test_a_body_that_says_that_it_is_too_large_is_refused_before_it_comes(bounded: Bounded) -> None:
    status, error = answer(connect(bounded, POST + b"Content-Length: 100001\r\n\r\n"))
    assert status == 413 and "100000 bytes" in error["message"]
    serves(bounded)


def test_whoever_is_answered_unread_is_told_that_the_connection_ends(bounded: Bounded) -> None:
    refused = connect(bounded, POST + b"Content-Length: 100001\r\n\r\n").recv(1000)
    assert refused.startswith(b"HTTP/1.1 413") and b"\r\nconnection: close\r\n" in refused.lower()
    client = connect(bounded, POST + b"Content-Length: 2\r\n\r\n{}")
    served = client.recv(1000)
    assert served.startswith(b"HTTP/1.1 200") and b"connection: close" not in served.lower()
    client.close()


def test_a_body_without_an_end_is_refused_when_it_is_too_large(bounded: Bounded) -> None:
    client = connect(bounded, CHUNKED)
    with contextlib.suppress(ConnectionError):
        for _ in range(1000):
            client.sendall(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
    assert answer(client)[0] == 413
    serves(bounded)


def test_many_bodies_without_an_end_hold_no_more_than_all_may(bounded: Bounded) -> None:
    bounded.guard._coming = ALL_COMING * BOUNDS.max_request_bytes  # as of many others
    client = connect(bounded, CHUNKED)
    client.sendall(b"11170\r\n" + b"x" * 70_000 + b"\r\n")
    status, error = answer(client)
    assert status == 503 and "try again" in error["message"]
    serves(bounded)  # A small one is always taken.
    assert bounded.guard._coming == ALL_COMING * BOUNDS.max_request_bytes


def test_a_body_that_does_not_come_is_not_waited_for(bounded: Bounded) -> None:
    status, error = answer(connect(bounded, POST + b"Content-Length: 10\r\n\r\n{"))
    assert status == 408 and "body" in error["message"]
    assert bounded.guard._coming == 0


@pytest.mark.slow
def test_nor_are_headers_whole_slow_or_none(bounded: Bounded) -> None:
    for sent in (b"", b"POST / HT", POST):
        assert answer(connect(bounded, sent))[0] == 408
    slow = connect(bounded)
    with contextlib.suppress(ConnectionError):
        for byte in POST * 10:
            slow.sendall(bytes([byte]))
            time.sleep(0.1)
    settled(lambda: bounded.connections == 0)


def test_a_second_request_has_as_long_as_the_first(bounded: Bounded) -> None:
    client = connect(bounded, POST + b"Content-Length: 2\r\n\r\n{}")
    assert client.recv(1000).startswith(b"HTTP/1.1 200")
    client.sendall(b"POST / HT")
    assert answer(client)[0] == 408


def test_empty_lines_do_not_keep_a_connection(bounded: Bounded) -> None:
    client = connect(bounded)
    with pytest.raises(ConnectionError):
        for _ in range(100):
            client.sendall(b"\r\n")
            time.sleep(0.1)


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
"""As Java's HTTP client asks for HTTP/2."""


@pytest.mark.parametrize("cut", [0, 20, 2])
def test_a_request_that_may_go_on_in_another_protocol_is_read_whole(bounded: Bounded, cut: int) -> None:
    asked = POST + H2C + b"Content-Length: 12\r\n\r\n" + b'{"a": [1,2]}'
    client = connect(bounded, asked[: len(asked) - cut])
    if cut:
        time.sleep(0.1)
        client.sendall(asked[len(asked) - cut :])
    assert (first := client.recv(1000)).startswith(b"HTTP/1.1 200") and first.endswith(b"12\r\n0\r\n\r\n")
    # The connection goes on, with chunks, and with several at once.
    client.sendall(POST + H2C + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + asked)
    received = b""
    while received.count(b"0\r\n\r\n") < 2:
        received += client.recv(1000)
    assert received.count(b"HTTP/1.1 200") == 2
    client.close()


@pytest.mark.slow
def test_one_that_asks_so_is_bounded_all_the_same(bounded: Bounded) -> None:
    assert answer(connect(bounded, POST + H2C + b"Content-Length: 100001\r\n\r\n"))[0] == 413
    assert answer(connect(bounded, POST + H2C + b"X: y\r\n" * (MOST_HEADERS + 1) + b"\r\n"))[0] == 431
    assert answer(connect(bounded, POST + H2C + b"Content-Length: 9\r\n\r\n{}"))[0] == 408
    with contextlib.suppress(ConnectionError), connect(bounded, b"GET / HTTP/1.1\r\n" + H2C + b"\r\n") as client:
        for _ in range(100):
            client.sendall((b"GET / HTTP/1.1\r\n" + H2C + b"\r\n") * 2000)
    serves(bounded)


@pytest.mark.slow
def test_headers_are_bounded_in_size_and_number(bounded: Bounded) -> None:
    large = b"GET / HTTP/1.1\r\nX: " + b"x" * (MOST_HEAD_BYTES + 1)
    many = b"GET / HTTP/1.1\r\n" + b"".join(b"x%d: 1\r\n" % i for i in range(MOST_HEADERS + 2))
    # In one piece: it may be parsed whole before it is counted.
    whole = b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * (MOST_HEAD_BYTES + 1) + b"\r\n\r\n"
    for sent in (large, many, many + b"\r\n", b"GET /" + b"x" * (MOST_HEAD_BYTES + 1), whole):
        status, error = answer(connect(bounded, sent))
        assert status == 431 and str(MOST_HEADERS) in error["message"]
    assert bounded.app.streams == 0


def test_who_does_not_read_a_stream_is_ended_and_nobody_else_is(bounded: Bounded) -> None:
    reader = connect(bounded, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    stalled = socket()
    stalled.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
    stalled.connect(("127.0.0.1", bounded.port))
    stalled.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    deadline = time.monotonic() + 20
    while bounded.app.ended == 0:
        assert time.monotonic() < deadline
        assert reader.recv(1 << 20)
    assert bounded.app.streams == 2 and bounded.app.ended == 1
    assert reader.recv(1 << 20)
    reader.close()


def test_who_reads_slowly_all_the_time_is_waited_for(bounded: Bounded) -> None:
    slow = socket()
    slow.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", bounded.port))
    slow.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    until = time.monotonic() + 6 * BOUNDS.stall_timeout_s
    while time.monotonic() < until:
        assert slow.recv(1000)
        time.sleep(0.02)
    assert bounded.app.streams == 1 and bounded.app.ended == 0
    slow.close()


def test_a_request_that_is_answered_while_its_body_comes_does_not_keep_its_connection(bounded: Bounded) -> None:
    client = connect(bounded, POST + b"Content-Length: 100001\r\n\r\n")
    began = time.monotonic()
    with pytest.raises(ConnectionError):
        while time.monotonic() < began + 10:
            client.sendall(b"x" * 100)
            time.sleep(0.1)
    assert time.monotonic() < began + LINGER_S + 5


@pytest.mark.parametrize("bounded", [PATIENT], indirect=True, ids=["patient"])
def test_a_connection_too_many_takes_the_place_of_an_idle_one(bounded: Bounded) -> None:
    idle = [connect(bounded) for _ in range(BOUNDS.max_connections)]
    settled(lambda: bounded.connections == BOUNDS.max_connections)
    serves(bounded)
    readable, _, _ = select(idle, [], [], 30)
    assert [client.recv(10) for client in readable] == [b""]
    for client in idle:
        client.close()


@pytest.mark.parametrize("bounded", [PATIENT], indirect=True, ids=["patient"])
def test_when_all_are_busy_one_too_many_is_told_so(bounded: Bounded) -> None:
    busy = [connect(bounded, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(BOUNDS.max_connections)]
    settled(lambda: bounded.app.streams == BOUNDS.max_connections)
    status, error = answer(connect(bounded))
    assert status == 503 and "8 connections" in error["message"]
    for client in busy:
        client.close()


def test_who_stops_reading_after_little_is_ended_though_the_system_could_hold_more(bounded: Bounded) -> None:
    stalled = connect(bounded, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    taken = stalled.recv(1000)
    assert taken.startswith(b"HTTP/1.1 200")
    settled(lambda: bounded.app.ended == 1)
    received = 0
    with contextlib.suppress(ConnectionError):
        while more := stalled.recv(1 << 20):
            received += len(more)
    assert received < 8 << 20

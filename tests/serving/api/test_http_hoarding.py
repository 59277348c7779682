"""HTTP clients that have the server keep what it need not: trailers, requests that wait, and crowds of connections."""

import asyncio
import time
from collections.abc import Iterator

import pytest
import uvicorn

from serving.api.http_protocol import MOST_PIPELINED, BoundedProtocol
from tests.serving.api.test_http_bounds import BOUNDS, CHUNKED, POST, App, Bounded, connect, serves, settled

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def server() -> Iterator[Bounded]:
    served = Bounded()
    served.thread.start()
    settled(lambda: served.server.started)
    yield served
    served.server.force_exit = served.server.should_exit = True
    served.thread.join(5)


@pytest.mark.parametrize("trailers", [b"x" * 20_000, b"x: 1\r\n" * 3_000], ids=["large", "many"])
def test_trailers_of_a_body_are_bounded_as_headers_are(server: Bounded, trailers: bytes) -> None:
    client = connect(server, CHUNKED + b"2\r\n{}\r\n0\r\nX: 1\r\nY: ")
    with pytest.raises(ConnectionError):
        for _ in range(50):
            client.sendall(trailers)
            time.sleep(0.01)
    settled(lambda: server.connections == 0 and server.guard._coming == 0)
    serves(server)


def test_a_few_trailers_are_no_harm(server: Bounded) -> None:
    client = connect(server, CHUNKED + b"2\r\n{}\r\n0\r\nx: 1\r\n\r\n")
    assert client.recv(1000).startswith(b"HTTP/1.1 200")
    client.close()


def test_a_body_of_many_small_chunks_is_no_trailer(server: Bounded) -> None:
    client = connect(server, CHUNKED + b"2\r\n{}\r\n" + b"1\r\n \r\n" * 50_000 + b"0\r\n\r\n")
    assert client.recv(1000).startswith(b"HTTP/1.1 200")
    client.close()


def test_requests_that_wait_for_the_one_before_them_are_bounded(server: Bounded) -> None:
    few = connect(server, GET * (MOST_PIPELINED + 1))
    settled(lambda: server.app.streams == 1)
    many = connect(server, GET * (MOST_PIPELINED + 2))
    deadline = time.monotonic() + 30
    try:
        while many.recv(1 << 20) and time.monotonic() < deadline:
            pass
    except ConnectionError:
        pass
    assert time.monotonic() < deadline
    assert few.recv(1 << 20)
    few.close()


def test_who_leaves_with_requests_that_wait_is_noticed_by_the_one_that_is_answered(server: Bounded) -> None:
    client = connect(server, GET)
    settled(lambda: server.app.streams == 1)
    client.sendall(GET + POST + b"Content-Length: 2\r\n\r\n")
    time.sleep(0.1)
    client.close()
    settled(lambda: server.app.ended >= 1 and server.connections == 0)
    serves(server)


def test_what_comes_behind_a_request_that_is_answered_is_bounded(server: Bounded) -> None:
    client = connect(server, GET + POST + b"Content-Length: 99000\r\n\r\n")
    settled(lambda: server.app.streams == 1)
    with pytest.raises(ConnectionError):
        for _ in range(50):
            client.sendall(b" " * 10_000)
            time.sleep(0.01)
    settled(lambda: server.app.ended == 1 and server.connections == 0)
    serves(server)


def test_a_request_is_answered_though_its_body_comes_after_the_answer_before_it(server: Bounded) -> None:
    first = POST + b"Content-Length: 2\r\n\r\n{}"
    client = connect(server, first + POST + b"Content-Length: 2\r\n\r\n")
    answer = client.recv(1000)
    assert answer.startswith(b"HTTP/1.1 200") and b"connection: close" not in answer.lower()
    client.sendall(b"{}")
    assert b"HTTP/1.1 200" in client.recv(1000)
    client.close()


def test_a_length_is_read_however_many_zeros_it_begins_with(server: Bounded) -> None:
    client = connect(server, POST + b"Content-Length: " + b"0" * 5000 + b"2\r\n\r\n{}")
    assert client.recv(1000).startswith(b"HTTP/1.1 200")
    client.close()


class Idle:
    """As much of a transport as is asked for: one that is closed is lost some turns later."""

    def __init__(self, closed: list["Idle"]) -> None:
        self._closed = closed

    def is_closing(self) -> bool:
        return self in self._closed

    def close(self) -> None:
        self._closed.append(self)

    def abort(self) -> None:
        self.close()

    def get_extra_info(self, name: str) -> None:
        return None


class SocketlessProtocol(BoundedProtocol):
    def _bound_socket(self) -> None:
        pass


def test_each_connection_of_a_crowd_takes_the_place_of_another_idle_one() -> None:
    closed: list[Idle] = []

    async def crowd() -> None:
        config = uvicorn.Config(App(), log_config=None, lifespan="off")
        state = uvicorn.Server(config).server_state
        for _ in range(BOUNDS.max_connections + 3):
            SocketlessProtocol(BOUNDS, config=config, server_state=state, app_state={}).connection_made(Idle(closed))

    asyncio.run(crowd())
    assert len(closed) == len(set(closed)) == 3

"""Streams between processes: tokens from the source to a device, releases from a device to the edge.

Over ZeroMQ, because a call of Ray's costs a hundred times as much, and these happen at every step. What rarely happens
(a request begins, an actor is connected) stays with Ray.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
import ray
import zmq

Message = TypeVar("Message")
# Messages that are handed over before the loop has its turn.
DRAIN = 32
# A thread that waits for messages shows so often that it is alive.
LOOK_MS = 1000


class Sender(Generic[Message]):
    """Sends messages to one receiver, never waiting for it. For one thread at a time."""

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
        self._socket.set(zmq.SNDHWM, 0)
        self._socket.connect(address)
        self._encoder = msgspec.msgpack.Encoder()

    def send(self, message: Message) -> None:
        self._socket.send(self._encoder.encode(message))

    def close(self) -> None:
        """Drop the connection, and what was not delivered over it."""
        self._socket.close(linger=0)


class Receiver(Generic[Message]):
    """Receives messages of a type, from any number of senders, on a port of its own."""

    def __init__(self, kind: Any) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
        self._socket.set(zmq.RCVTIMEO, LOOK_MS)
        self._looked_s = time.monotonic()
        self.address = bind(self._socket)
        self._decoder = msgspec.msgpack.Decoder(kind)

    @property
    def overdue_s(self) -> float:
        """For how many real seconds the thread that runs it has not looked for messages."""
        return max(0.0, time.monotonic() - self._looked_s - LOOK_MS / 1000)

    def run(self, take: Callable[[Message], object]) -> None:
        """Hand over each message, for ever."""
        while True:
            self._looked_s = time.monotonic()
            with contextlib.suppress(zmq.Again):
                take(self._decoder.decode(self._socket.recv()))


class Inbox(Generic[Message]):
    """A receiver on an event loop: it hands messages over in callbacks, much cheaper than a coroutine that waits."""

    def __init__(self, kind: Any) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
        self.address = bind(self._socket)
        self._decoder = msgspec.msgpack.Decoder(kind)

    def start(self, take: Callable[[Message], object]) -> None:
        """Hand over each message from now on, on the running loop."""
        self._take = take
        self._loop, self._descriptor = asyncio.get_running_loop(), int(self._socket.get(zmq.FD))
        self._loop.add_reader(self._descriptor, self._drain)
        self._drain()

    def close(self) -> None:
        """Take no more."""
        self._loop.remove_reader(self._descriptor)
        self._socket.close(linger=0)

    def _drain(self) -> None:
        # The descriptor tells of the first of several messages only; others on the loop have their turn in between.
        for _ in range(DRAIN):
            if self._socket.closed:
                return
            try:
                message = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._take(self._decoder.decode(message))
        self._loop.call_soon(self._drain)


def bind(socket: Any) -> str:
    """Bind a receiving socket to a free port of this node, where senders find it; the address."""
    socket.set(zmq.RCVHWM, 0)
    ip = ray.util.get_node_ip_address()
    return f"tcp://{ip}:{socket.bind_to_random_port(f'tcp://{ip}')}"

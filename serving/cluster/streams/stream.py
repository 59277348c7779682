"""Streams between processes: tokens from the source to a device, releases from a device to the edge.

Over ZeroMQ, because a call of Ray's costs a hundred times as much, and these happen at every step. What rarely happens
(a request begins, an actor is connected) stays with Ray, and so do addresses: who has one may send there.

On one host these are Unix sockets in a folder that only their user can enter. Where a Ray cluster may have several
nodes, a receiver listens on its node's address too, in CURVE: encrypted, and open only to the key that is in the
address. What cannot be read is dropped, counted and told of; whoever sent it, the receiver goes on.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import ray
import zmq

from serving.cluster.streams.curve_keys import CurveKeys, lock, unlock
from serving.process.run_folder import hold
from serving.types import Dropped

Message = TypeVar("Message")
Drop = Callable[[Dropped], object]
# For so long messages are handed over before others on the loop have their turn.
TURN_S = 0.002
# A thread that waits for messages shows so often that it is alive.
LOOK_MS = 1000
# Of a longer frame not even the memory is taken: the log probabilities of the longest prompts need a tenth of it.
MOST_BYTES = 2**28


class Address(NamedTuple):
    """Where a receiver is: a Unix socket on a node of Ray's, and, if there may be others, a port for those."""

    node: str
    path: str
    port: str = ""
    keys: CurveKeys | None = None

    @property
    def folder(self) -> Path:
        """The folder of its socket; a process on another node has one of that name for itself."""
        return Path(self.path).parent


class Sender(Generic[Message]):
    """Sends messages to one receiver, never waiting for it. For one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
        self._socket.set(zmq.SNDHWM, 0)
        if address.keys is not None:
            unlock(self._socket, address.keys)
        self._socket.connect(f"ipc://{address.path}" if this_node() == address.node else address.port)
        self._encoder = msgspec.msgpack.Encoder()

    def send(self, message: Message) -> None:
        self._socket.send(self._encoder.encode(message))

    def close(self) -> None:
        """Drop the connection, and what was not delivered over it."""
        self._socket.close(linger=0)


class _Socket(Generic[Message]):
    """What receivers have in common: a socket, and messages of a kind that are read from it."""

    def __init__(self, kind: Any, folder: Path, name: str, others: bool) -> None:
        """A socket of that name, in a folder that is there from now on; open to `others`: nodes of Ray's."""
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
        self._socket.set(zmq.RCVHWM, 0)
        self._socket.set(zmq.MAXMSGSIZE, MOST_BYTES)
        path = str(hold(folder) / f"{name}-{os.getpid()}")
        keys = lock(self._socket) if others else None
        self._socket.bind(f"ipc://{path}")
        self.address = Address(this_node(), path, _bind(self._socket) if others else "", keys)
        self._decoder = msgspec.msgpack.Decoder(kind)

    def _receive(self, take: Callable[[Message], object], drop: Drop, flags: int = 0) -> None:
        """Hand over the next message. Whatever is wrong with it, or with what it asks for, others come after it."""
        frames = self._socket.recv_multipart(flags)
        try:
            if len(frames) > 1:
                raise ValueError(f"it has {len(frames)} parts")
            take(self._decoder.decode(frames[0]))
        except Exception as error:
            drop(Dropped(1, f"{type(error).__name__}: {error}"))


class Receiver(_Socket[Message]):
    """Receives messages of a type, from any number of senders."""

    def __init__(self, kind: Any, folder: Path, name: str, others: bool) -> None:
        super().__init__(kind, folder, name, others)
        self._socket.set(zmq.RCVTIMEO, LOOK_MS)
        self._looked_s = time.monotonic()

    @property
    def overdue_s(self) -> float:
        """For how many real seconds the thread that runs it has not looked for messages."""
        return max(0.0, time.monotonic() - self._looked_s - LOOK_MS / 1000)

    def run(self, take: Callable[[Message], object], drop: Drop) -> None:
        """Hand over each message, for ever, and tell of each that is dropped."""
        while True:
            self._looked_s = time.monotonic()
            with contextlib.suppress(zmq.Again):
                self._receive(take, drop)


class Inbox(_Socket[Message]):
    """A receiver on an event loop: it hands messages over in callbacks, much cheaper than a coroutine that waits."""

    def start(self, take: Callable[[Message], object], drop: Drop) -> None:
        """Hand over each message from now on, on the running loop, and tell of each that is dropped."""
        self._loop, self._descriptor = asyncio.get_running_loop(), int(self._socket.get(zmq.FD))
        self._loop.add_reader(self._descriptor, self._drain, take, drop)
        self._drain(take, drop)

    def close(self) -> None:
        """Take no more."""
        self._loop.remove_reader(self._descriptor)
        self._socket.close(linger=0)

    def _drain(self, take: Callable[[Message], object], drop: Drop) -> None:
        # The descriptor tells of the first of several messages only.
        until_s = time.monotonic() + TURN_S
        while time.monotonic() < until_s:
            if self._socket.closed:
                return
            try:
                self._receive(take, drop, zmq.NOBLOCK)
            except zmq.Again:
                return
        self._loop.call_soon(self._drain, take, drop)


def this_node() -> str:
    """Ray's name for the node that this process is on."""
    return str(ray.get_runtime_context().get_node_id())


def _bind(socket: Any) -> str:
    """Listen on a free port of this node, where senders on others find it; the address."""
    ip = ray.util.get_node_ip_address()
    return f"tcp://{ip}:{socket.bind_to_random_port(f'tcp://{ip}')}"


class Drops:
    """Adds up what one thread drops until another one tells of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dropped: Dropped | None = None

    def add(self, dropped: Dropped) -> None:
        """Some more."""
        with self._lock:
            before = self._dropped.count if self._dropped else 0
            self._dropped = Dropped(before + dropped.count, dropped.why)

    def take(self) -> Dropped | None:
        """All of them since the last time."""
        with self._lock:
            dropped, self._dropped = self._dropped, None
            return dropped

"""Streams of messages of one type: releases, from devices to the edge. Nobody waits for an answer.

Over ZeroMQ, because a call of Ray's costs a hundred times as much, and these happen at every step. What cannot be read
is dropped, counted and told of; whoever sent it, the receiver goes on.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import zmq

from serving.cluster.streams.sockets import Address, connect, decoder, encoder, listen
from serving.types import Dropped

Message = TypeVar("Message")
Drop = Callable[[Dropped], object]
# For so long messages are handed over before others on the loop have their turn.
TURN_S = 0.002


class Sender(Generic[Message]):
    """Sends messages to one receiver, never waiting for it. For one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._socket = connect(zmq.PUSH, address)
        self._encoder = encoder()

    def send(self, message: Message) -> None:
        self._socket.send(self._encoder.encode(message))

    def close(self) -> None:
        """Drop the connection, and what was not delivered over it."""
        self._socket.close(linger=0)


class Inbox(Generic[Message]):
    """Receives messages of a type, from any number of senders, on an event loop: it hands them over in callbacks, much
    cheaper than a coroutine that waits."""

    def __init__(self, kind: Any, folder: Path, name: str, others: bool) -> None:
        """A socket of that name, in a folder that is there from now on; open to `others`: nodes of Ray's."""
        self._socket, self.address = listen(zmq.PULL, folder, name, others)
        self._decoder = decoder(kind)

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
                self._receive(take, drop)
            except zmq.Again:
                return
        self._loop.call_soon(self._drain, take, drop)

    def _receive(self, take: Callable[[Message], object], drop: Drop) -> None:
        """Hand over the next message. Whatever is wrong with it, or with what it asks for, others come after it."""
        frames = self._socket.recv_multipart(zmq.NOBLOCK)
        try:
            if len(frames) > 1:
                raise ValueError(f"it has {len(frames)} parts")
            take(self._decoder.decode(frames[0]))
        except Exception as error:
            drop(Dropped(1, f"{type(error).__name__}: {error}"))


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

"""Streams of messages of one type: releases, from devices to the edge. Nobody waits for an answer.

Over ZeroMQ, because a call of Ray's costs a hundred times as much, and these happen at every step. A message that
cannot be read is dropped, counted and reported; the receiver goes on, whatever it gets.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import zmq

from serving.cluster.streams.sockets import Address, connect, decoder, encoder, listen
from serving.types import DroppedMessages

Message = TypeVar("Message")
Drop = Callable[[DroppedMessages], object]
# Real seconds for which messages are handed over before other work on the loop has its turn.
TURN_S = 0.002


class Sender(Generic[Message]):
    """A sender of messages to one receiver, for which it never waits. For one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._socket = connect(zmq.PUSH, address)
        self._encoder = encoder()

    def send(self, message: Message) -> None:
        self._socket.send(self._encoder.encode(message))

    def close(self) -> None:
        """Drop the connection, with all messages that were not delivered."""
        self._socket.close(linger=0)


class Inbox(Generic[Message]):
    """A receiver of messages of one type, from any number of senders, on an event loop.

    It hands them over in callbacks, which cost much less than a coroutine that waits.
    """

    def __init__(self, kind: Any, folder: Path, name: str, others: bool) -> None:
        """Listen on a socket of that name in a folder, made if need be; open to `others`: nodes of Ray's."""
        self._socket, self.address = listen(zmq.PULL, folder, name, others)
        self._decoder = decoder(kind)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._descriptor = int(self._socket.get(zmq.FD))

    def start(self, take: Callable[[Message], object], drop: Drop) -> None:
        """Hand each message to `take` from now on, on the running loop, and report each dropped one to `drop`."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._drain, take, drop)
        self._drain(take, drop)

    def close(self) -> None:
        """Take no more messages, and close the socket, though nothing was ever taken from it."""
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor)
        self._socket.close(linger=0)

    def _drain(self, take: Callable[[Message], object], drop: Drop) -> None:
        # The descriptor signals the first of several messages only.
        until_s = time.monotonic() + TURN_S
        while time.monotonic() < until_s:
            if self._socket.closed:
                return
            try:
                self._receive(take, drop)
            except zmq.Again:
                return
        if self._loop is not None:
            self._loop.call_soon(self._drain, take, drop)

    def _receive(self, take: Callable[[Message], object], drop: Drop) -> None:
        """Hand over the next message. Whatever is wrong with it, or with its handling, others come after it."""
        frames = self._socket.recv_multipart(zmq.NOBLOCK)
        try:
            if len(frames) > 1:
                raise ValueError(f"it has {len(frames)} parts")
            take(self._decoder.decode(frames[0]))
        except Exception as error:
            drop(DroppedMessages(1, f"{type(error).__name__}: {error}"))


class Drops:
    """The count of messages that one thread drops, until another thread reports them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dropped: DroppedMessages | None = None

    def add(self, dropped: DroppedMessages) -> None:
        """Add dropped messages."""
        with self._lock:
            before = self._dropped.count if self._dropped else 0
            self._dropped = DroppedMessages(before + dropped.count, dropped.why)

    def take(self) -> DroppedMessages | None:
        """Return the messages dropped since the last time; None if there were none."""
        with self._lock:
            dropped, self._dropped = self._dropped, None
            return dropped

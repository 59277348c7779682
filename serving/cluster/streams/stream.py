"""Streams of messages of one type: releases, from devices to the edge. Nobody waits for an answer.

A call of Ray's costs a hundred times as much, and these happen at every step. A message that cannot be read is dropped,
counted and reported; the receiver goes on, whatever it gets.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from serving.cluster.streams.sockets import Address, Host, connect, decoder, encoder, listen
from serving.cluster.streams.wire import TooLong, Wire
from serving.cluster.streams.wire_reader import WireReader
from serving.types import DroppedMessages

Message = TypeVar("Message")
Drop = Callable[[DroppedMessages], object]
# Real seconds for which messages are handed over before other work on the loop has its turn.
TURN_S = 0.002
# Messages of one turn that are handed over together, where so many wait: what goes on to a client in one piece costs as
# much as each of them alone.
MOST_TOGETHER = 8


class Sender(Generic[Message]):
    """A sender of messages to one receiver, for which it never waits. For one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._wire = connect(address)
        self._encoder = encoder()

    def send(self, message: Message) -> None:
        self.send_encoded(self._encoder.encode(message))

    def send_encoded(self, message: bytes) -> None:
        """Send a message that is encoded already."""
        self._wire.send(message)

    def close(self) -> None:
        """Drop the connection, with all messages that were not delivered."""
        self._wire.close()


class Inbox(Generic[Message]):
    """A receiver of messages of one type, from any number of senders, on an event loop."""

    def __init__(self, kind: Any, folder: Path, name: str, host: Host) -> None:
        """Listen on a socket of that name in a folder of this `host`, made if need be."""
        self._listener, self.address = listen(folder, name, host)
        self._decoder = decoder(kind)
        self._readers: dict[Wire, WireReader] = {}
        self._here: deque[memoryview] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def start(self, take: Callable[[Message], object], drop: Drop, taken: Callable[[], object] = lambda: None) -> None:
        """Hand each message to `take` from now on, on the running loop, and report each dropped one to `drop`. Call
        `taken` after each that nothing follows, and at least after every `MOST_TOGETHER`."""
        self._take, self._drop, self._taken = take, drop, taken
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Take no more messages, and close the socket, though nothing was ever taken from it. A second time it does
        nothing: vLLM shuts an engine down once more when it is collected."""
        if self._closed:
            return
        self._closed = True
        if self._loop is not None:
            self._loop.remove_reader(self._listener.fileno())
        for reader in self._readers.values():
            reader.close()
        self._listener.close()
        self._here.clear()

    def _accept(self) -> None:
        if wire := self._listener.accept():
            self._readers[wire] = WireReader(wire, self._receive, partial(self._part, wire))

    def _part(self, wire: Wire, error: ConnectionError) -> None:
        self._readers.pop(wire).close()
        if isinstance(error, TooLong):
            self._drop(DroppedMessages(1, str(error)))

    def _receive(self, messages: Sequence[memoryview]) -> None:
        waiting = bool(self._here)
        self._here.extend(messages)
        if not waiting:
            self._hand_over()

    def _hand_over(self) -> None:
        """Hand over messages for `TURN_S`, and the rest later. Whatever is wrong with one, or with its handling, others
        come after it."""
        until_s = time.monotonic() + TURN_S
        while self._here:
            for _ in range(min(MOST_TOGETHER, len(self._here))):
                self._try(self._take_first)
            self._try(self._taken)
            if self._here and time.monotonic() > until_s and self._loop is not None:
                self._loop.call_soon(self._hand_over)
                return

    def _take_first(self) -> None:
        if self._here:  # nobody has closed this meanwhile
            self._take(self._decoder.decode(self._here.popleft()))

    def _try(self, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:
            self._drop(DroppedMessages(1, f"{type(error).__name__}: {error}"))


class Drops:
    """The count of messages that one thread drops, for another thread to report."""

    def __init__(self) -> None:
        self.all: DroppedMessages | None = None
        """Those dropped so far; None if there were none. A report may be lost, and the next one has them too."""

    def add(self, dropped: DroppedMessages) -> None:
        """Add dropped messages."""
        before = self.all.count if self.all else 0
        self.all = DroppedMessages(before + dropped.count, dropped.why)

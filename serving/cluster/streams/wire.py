"""Wires: whole messages both ways over a stream socket between two processes of this host.

The kernel is asked once to send a message and once to receive it. ZeroMQ has a thread on either side that is woken for
each, which costs three times as much (`serving/cluster/README.md` has the figures); it carries what goes to other nodes
(`network`).
"""

import contextlib
import errno
import logging
import select
import socket
import struct
import threading
import time
from collections import deque
from pathlib import Path

log = logging.getLogger("foreserve")

# No memory is taken for a longer message: the log probabilities of the longest prompts need a tenth of this.
MOST_BYTES = 2**28
# Bytes that are read at once: less than what the allocator asks the kernel for each time.
READ_BYTES = 2**16
# What the kernel holds for a receiver that is busy, as far as it allows.
BUFFER_BYTES = 2**22
# Connections that wait to be accepted.
BACKLOG = 1024
NOW = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
# The kernel lacks memory for what is sent; the receiver is there. Who sends again waits so many seconds before that.
SCARCE = (errno.ENOBUFS, errno.ENOMEM)
SCARCE_S = 0.01
HEAD = struct.Struct("<I")


class TooLong(ConnectionError):
    """The other side has said that a message is longer than `MOST_BYTES`: what follows is no message either."""


class Messages:
    """Messages in a stream of bytes: each is its length, in four bytes, and so many bytes."""

    def __init__(self) -> None:
        self._begun, self._missing = bytearray(), 0

    def of(self, data: bytes) -> list[memoryview]:
        """Return the messages that `data` completes. Raise `TooLong`."""
        if self._begun:
            self._begun += data
            if len(self._begun) < self._missing:
                return []
            data = bytes(self._begun)
        found, begin, view = list[memoryview](), 0, memoryview(data)
        self._missing = HEAD.size
        while len(data) - begin >= HEAD.size:
            (length,) = HEAD.unpack_from(data, begin)
            if length > MOST_BYTES:
                raise TooLong(f"a message of {length} bytes is announced, and {MOST_BYTES} are the most")
            end = begin + HEAD.size + length
            if end > len(data):
                self._missing = end - begin
                break
            found.append(view[begin + HEAD.size : end])
            begin = end
        self._begun = bytearray(view[begin:])
        return found


class Wire:
    """One end of a connection. Who sends never waits: what a slow receiver does not take yet is kept for it.

    Any thread may send, one at a time may receive. What is sent to somebody who has gone is lost, without a word.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self._messages = connected, Messages()
        self._lock, self._kept = threading.Lock(), deque[memoryview]()
        self._sending = self.closed = False
        connected.setblocking(True)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)

    def fileno(self) -> int:
        """Return the descriptor, which is readable while something is here, or the other side has gone."""
        return self._socket.fileno()

    def send(self, message: bytes) -> None:
        """Send a message. One that is longer than `MOST_BYTES` is lost alone: its receiver would hang up for it."""
        if len(message) > MOST_BYTES:
            log.error("A message of %d bytes is dropped: %d are the most.", len(message), MOST_BYTES)
            return
        data = HEAD.pack(len(message)) + message
        with self._lock:
            if self._kept:
                self._kept.append(memoryview(data))
            elif (sent := self._sent(data)) < len(data):
                self._kept.append(memoryview(data)[sent:])
            if self._kept and not self._sending:
                # Where no thread can be had, the next message tries again.
                with contextlib.suppress(RuntimeError):
                    threading.Thread(target=self._send_kept, daemon=True).start()
                    self._sending = True

    def receive(self) -> list[memoryview]:
        """Return the messages that are here. Raise ConnectionError if the other side has gone."""
        try:
            data = self._socket.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ConnectionResetError(str(error)) from error
        if not data:
            raise ConnectionResetError("the other side has gone")
        return self._messages.of(data)

    def wait(self, seconds: float) -> list[memoryview]:
        """Return the next messages, as soon as there are any, or none after so many seconds. Raise ConnectionError if
        the other side has gone."""
        if self.closed:
            raise ConnectionResetError("the connection is closed")
        readable = select.poll()
        readable.register(self._socket, select.POLLIN)
        return self.receive() if readable.poll(1000 * seconds) else []

    def close(self) -> None:
        """Drop the connection, with all that was not delivered."""
        with self._lock:
            self.closed = True
            self._kept.clear()
            self._socket.close()

    def _sent(self, data: bytes | memoryview) -> int:
        """Return how many bytes the kernel takes now; it takes all for somebody who has gone."""
        try:
            return self._socket.send(data, NOW)
        except BlockingIOError:
            return 0
        except OSError as error:
            return 0 if error.errno in SCARCE else len(data)

    def _send_kept(self) -> None:
        """Send what was kept, as the receiver takes it."""
        writable = select.poll()
        with contextlib.suppress(ValueError):  # closed meanwhile
            writable.register(self._socket, select.POLLOUT)
            while (sent := self._send_first()) is not None:
                if sent:
                    continue
                if writable.poll(0):
                    time.sleep(SCARCE_S)  # There is room, and no memory.
                else:
                    writable.poll(1000)

    def _send_first(self) -> int | None:
        """Send the first message that was kept, or a part of it; return the bytes that were sent, None if none is kept
        any more."""
        with self._lock:
            if not self._kept:
                self._sending = False
                return None
            sent = self._sent(self._kept[0])
            if sent < len(self._kept[0]):
                self._kept[0] = self._kept[0][sent:]
            else:
                self._kept.popleft()
            return sent


class Listener:
    """A Unix socket at a path, at which others connect."""

    def __init__(self, path: Path) -> None:
        """Raise OSError if there is no such folder, or the name is too long."""
        self.path = path
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen(BACKLOG)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor, which is readable while somebody waits to be accepted."""
        return self._socket.fileno()

    def accept(self) -> Wire | None:
        """Return the next connection; None if nobody waits, or went away."""
        with contextlib.suppress(OSError):
            return Wire(self._socket.accept()[0])
        return None

    def close(self) -> None:
        """Take no more connections."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


def dial(path: Path) -> Wire:
    """Connect to a listener. Raise OSError if nobody is there."""
    mine = socket.socket(socket.AF_UNIX)
    try:
        mine.connect(str(path))
    except OSError:
        mine.close()
        raise
    return Wire(mine)


def connected(path: Path) -> Wire:
    """Connect to a listener; if nobody is there, to somebody who has gone."""
    with contextlib.suppress(OSError):
        return dial(path)
    mine, other = socket.socketpair()
    other.close()
    return Wire(mine)

"""Does a wire lose a message that the kernel has no memory for?"""

import errno
import socket
import threading
import time

import pytest

from serving.cluster.streams.wire import Wire

MESSAGES = [bytes([number]) * 1000 for number in range(20)]


class Scarce(socket.socket):
    """A socket of a kernel that has no memory for every second message."""

    sent = 0

    def send(self, *arguments: object) -> int:  # type: ignore[override]
        self.sent += 1
        if self.sent % 2:
            raise OSError((errno.ENOBUFS, errno.ENOMEM)[self.sent // 2 % 2], "no memory")
        return super().send(*arguments)  # type: ignore[arg-type]


def received(wire: Wire) -> list[bytes]:
    got, until_s = list[bytes](), time.monotonic() + 20
    while len(got) < len(MESSAGES) and time.monotonic() < until_s:
        got += map(bytes, wire.wait(1.0))
    return got


def test_no_message_is_lost_for_lack_of_memory() -> None:
    here, there = socket.socketpair()
    wire, other = Wire(Scarce(fileno=here.detach())), Wire(there)
    for message in MESSAGES:
        wire.send(message)
    assert received(other) == MESSAGES
    wire.close(), other.close()


def test_a_thread_that_cannot_be_had_keeps_nothing_back_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    wire, other = Wire(Scarce(fileno=here.detach())), Wire(there)

    def failing(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", failing)
        for message in MESSAGES[:-1]:
            wire.send(message)
    wire.send(MESSAGES[-1])
    assert received(other) == MESSAGES
    wire.close(), other.close()


def test_what_is_sent_to_somebody_who_has_gone_is_lost_without_a_word() -> None:
    here, there = socket.socketpair()
    wire = Wire(here)
    there.close()
    for message in MESSAGES:
        wire.send(message)
    wire.close()

"""Is nothing left of connections from other nodes that have gone, and is who was only silent still heard?"""

import time
from pathlib import Path

import pytest

from serving.cluster.streams import network
from serving.cluster.streams.network import connect_port, open_port
from serving.cluster.streams.wire import Listener, Wire, dial

PATIENCE_S = 10.0


def accepted(listener: Listener) -> Wire:
    until_s = time.monotonic() + PATIENCE_S
    while (wire := listener.accept()) is None:
        assert time.monotonic() < until_s
        time.sleep(0.01)
    return wire


def received(wire: Wire) -> bytes:
    (message,) = wire.wait(PATIENCE_S)
    return bytes(message)


def test_one_message_is_lost_for_which_no_file_can_be_opened_and_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [OSError(24, "Too many open files")]

    def connected(path: Path) -> Wire:
        if failures:
            raise failures.pop()
        return dial(path)

    monkeypatch.setattr(network, "connected", connected)
    listener = Listener(tmp_path / "near")
    far = connect_port(*open_port(listener.path, "127.0.0.1"))
    far.send(b"lost")
    far.send(b"heard")
    near = accepted(listener)
    assert received(near) == b"heard"
    assert "A message from another node is lost" in caplog.text and "Too many open files" in caplog.text
    near.send(b"answer")
    assert received(far) == b"answer"
    for each in (far, near, listener):
        each.close()


def test_who_is_silent_is_dropped_and_heard_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "SILENT_S", 0.2)
    monkeypatch.setattr(network, "LOOK_S", 0.05)
    listener = Listener(tmp_path / "near")
    far = connect_port(*open_port(listener.path, "127.0.0.1"))
    for message in (b"one", b"two"):
        far.send(message)
        near = accepted(listener)
        assert received(near) == message
        near.send(b"answer to " + message)
        assert received(far) == b"answer to " + message
        with pytest.raises(ConnectionError):
            received(near)
        near.close()
    far.close()
    listener.close()

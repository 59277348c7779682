"""Wires to other nodes of Ray's: a thread on either side carries their messages over ZeroMQ, in CURVE.

CURVE encrypts, and is open only to the keys that are in a receiver's address. ZeroMQ connects anew by itself, and never
delivers half a message.
"""

import logging
import socket
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import zmq

from serving.cluster.streams.curve_keys import CurveKeys, lock, unlock
from serving.cluster.streams.wire import MOST_BYTES, Wire, connected

log = logging.getLogger("foreserve")

# What was sent before its wire was closed may still go so long.
LINGER_MS = 1000
# Who has said nothing for so many real seconds is dropped: ZeroMQ does not tell that somebody has gone. Who is still
# there has another wire with his next message.
SILENT_S = 600.0
LOOK_S = 5.0
# Real seconds after an error of the system's, which may pass: there are no more files to open.
RETRY_S = 0.1


def open_port(path: Path, ip: str) -> tuple[str, CurveKeys]:
    """Carry what comes from other nodes to this one's `ip` to the listener at a path, and its answers back; return the
    port's address and the keys to it."""
    port = unlimited(zmq.ROUTER)
    keys = lock(port)
    address = f"tcp://{ip}:{port.bind_to_random_port(f'tcp://{ip}')}"
    threading.Thread(target=_carry_in, args=[port, path], daemon=True).start()
    return address, keys


def connect_port(address: str, keys: CurveKeys | None) -> Wire:
    """Connect to another node's port."""
    far = unlimited(zmq.DEALER)
    if keys is not None:
        unlock(far, keys)
    far.connect(address)
    mine, other = socket.socketpair()
    threading.Thread(target=_carry_out, args=[far, Wire(other)], daemon=True).start()
    return Wire(mine)


def unlimited(kind: int) -> "zmq.Socket[bytes]":
    """Return a socket of a kind of ZeroMQ's without limits but `MOST_BYTES` a message: nobody waits for a slow peer."""
    port: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    port.set(zmq.RCVHWM, 0)
    port.set(zmq.SNDHWM, 0)
    port.set(zmq.MAXMSGSIZE, MOST_BYTES)
    return port


def _carry_out(far: "zmq.Socket[bytes]", near: Wire) -> None:
    """Carry messages between a wire and a far port, until the wire is closed."""
    poller = zmq.Poller()
    poller.register(far, zmq.POLLIN)
    poller.register(near.fileno(), zmq.POLLIN)
    with closing(near), suppress(ConnectionError):
        while True:
            ready = dict(poller.poll())
            if near.fileno() in ready:
                for message in near.receive():
                    far.send(bytes(message))
            if far in ready:
                near.send(far.recv())
    far.close(linger=LINGER_MS)


def _carry_in(port: "zmq.Socket[bytes]", path: Path) -> None:
    """Carry messages between a port and the listener behind it, for ever."""
    callers = _Callers(port, path)
    while True:
        try:
            callers.carry()
        except OSError as error:  # Without this thread nobody would hear from another node any more.
            log.warning("A message from another node is lost (%s).", error)
            time.sleep(RETRY_S)


class _Callers:
    """The connections to a port, each with a wire to the listener at a path."""

    def __init__(self, port: "zmq.Socket[bytes]", path: Path) -> None:
        self._port, self._path = port, path
        self._poller = zmq.Poller()
        self._poller.register(port, zmq.POLLIN)
        self._wires: dict[bytes, Wire] = {}
        self._callers: dict[int, bytes] = {}
        self._heard_s: dict[bytes, float] = {}
        self._looked_s = time.monotonic()

    def carry(self) -> None:
        """Carry what is here, or comes within `LOOK_S`; drop who has been silent for too long."""
        for ready, _ in self._poller.poll(round(1000 * LOOK_S)):
            if ready is self._port:
                self._take()
            else:
                self._answer(self._callers[ready])
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            for caller in [caller for caller, heard_s in self._heard_s.items() if now_s - heard_s > SILENT_S]:
                self._drop(caller)

    def _take(self) -> None:
        caller, *frames = self._port.recv_multipart()
        if (wire := self._wires.get(caller)) is None:
            wire = self._wires[caller] = connected(self._path)
            self._callers[wire.fileno()] = caller
            self._poller.register(wire.fileno(), zmq.POLLIN)
        self._heard_s[caller] = time.monotonic()
        wire.send(b"".join(frames))

    def _answer(self, caller: bytes) -> None:
        try:
            for message in self._wires[caller].receive():
                self._port.send_multipart([caller, bytes(message)])
        except ConnectionError:
            self._drop(caller)

    def _drop(self, caller: bytes) -> None:
        wire = self._wires.pop(caller)
        self._poller.unregister(wire.fileno())
        del self._callers[wire.fileno()], self._heard_s[caller]
        wire.close()

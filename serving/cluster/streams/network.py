"""Wires to other nodes of Ray's: a thread on either side carries their messages over ZeroMQ, in CURVE.

CURVE encrypts, and is open only to the keys that are in a receiver's address. ZeroMQ connects anew by itself, and never
delivers half a message.
"""

import socket
import threading
from contextlib import closing, suppress
from pathlib import Path

import zmq

from serving.cluster.streams.curve_keys import CurveKeys, lock, unlock
from serving.cluster.streams.wire import MOST_BYTES, Wire, connected

# What was sent before its wire was closed may still go so long.
LINGER_MS = 1000


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
    """Carry messages between a port and the listener behind it, over a wire for each connection."""
    poller = zmq.Poller()
    poller.register(port, zmq.POLLIN)
    wires: dict[bytes, Wire] = {}
    callers: dict[int, bytes] = {}
    while True:
        for ready, _ in poller.poll():
            if ready is port:
                caller, *frames = port.recv_multipart()
                if (wire := wires.get(caller)) is None:
                    wire = wires[caller] = connected(path)
                    callers[wire.fileno()] = caller
                    poller.register(wire.fileno(), zmq.POLLIN)
                wire.send(b"".join(frames))
                continue
            caller = callers[ready]
            try:
                for message in wires[caller].receive():
                    port.send_multipart([caller, bytes(message)])
            except ConnectionError:
                poller.unregister(ready)
                del callers[ready]
                wires.pop(caller).close()

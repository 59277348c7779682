"""Sockets between processes: their addresses, their opening on either side, and the encoding of messages.

On one host these are Unix sockets in a folder that only their user can enter. Where a Ray cluster may have several
nodes, a receiver listens on its node's address too, in CURVE: encrypted, and open only to the key that is in the
address. Addresses travel by Ray: a process that has one may send there.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import ray
import zmq

from serving.cluster.actor_process import this_node
from serving.cluster.streams.curve_keys import CurveKeys, lock, unlock
from serving.process.run_folder import hold

# No memory is taken for a longer frame: the log probabilities of the longest prompts need a tenth of this.
MOST_BYTES = 2**28
# Types of arrays that are decoded; others are refused, as an array of objects would be code.
NUMBERS = ("<i8", "<f8")


class Address(NamedTuple):
    """A receiver's address: a Unix socket on a node of Ray's, and a port with keys, if there may be other nodes."""

    node: str
    path: str
    port: str = ""
    keys: CurveKeys | None = None

    @property
    def folder(self) -> Path:
        """The folder of its socket; a process on another node has one of that name for itself."""
        return Path(self.path).parent


def listen(kind: int, folder: Path, name: str, others: bool) -> "tuple[zmq.Socket[bytes], Address]":
    """Open a receiving socket of a kind of ZeroMQ's, in a folder, made if need be; open to `others`: nodes of Ray's."""
    socket = unlimited(kind)
    path = str(hold(folder) / f"{name}-{os.getpid()}")
    keys = lock(socket) if others else None
    socket.bind(f"ipc://{path}")
    return socket, Address(this_node(), path, _bind(socket) if others else "", keys)


def connect(kind: int, address: Address) -> "zmq.Socket[bytes]":
    """Open a socket of a kind of ZeroMQ's to a receiver."""
    socket = unlimited(kind)
    if address.keys is not None:
        unlock(socket, address.keys)
    socket.connect(f"ipc://{address.path}" if this_node() == address.node else address.port)
    return socket


def unlimited(kind: int) -> "zmq.Socket[bytes]":
    """Return a socket of a kind of ZeroMQ's without limits but `MOST_BYTES` a message: nobody waits for a slow peer."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    socket.set(zmq.RCVHWM, 0)
    socket.set(zmq.SNDHWM, 0)
    socket.set(zmq.MAXMSGSIZE, MOST_BYTES)
    return socket


def encoder() -> msgspec.msgpack.Encoder:
    """Return an encoder of messages, also with arrays of numbers in them."""
    return msgspec.msgpack.Encoder(enc_hook=_plain)


def decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return a decoder of messages of a type, which raises ValueError (msgspec's own among them) for others."""
    return msgspec.msgpack.Decoder(kind, dec_hook=_array)


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a {type(value).__name__} can't be sent")
    return value.dtype.str, value.shape, value.tobytes()


def _array(kind: Any, sent: Any) -> object:
    """Return an array of the numbers that its type names; read-only, as it lies in the message."""
    dtype, shape, data = msgspec.convert(sent, tuple[str, tuple[int, ...], bytes], strict=False)
    if dtype not in NUMBERS:
        raise ValueError(f"an array of {dtype!r}; allowed are {', '.join(NUMBERS)}")
    return np.frombuffer(data, np.dtype(dtype)).reshape(shape)


def _bind(socket: Any) -> str:
    """Listen on a free port of this node, for senders on other nodes; return the address."""
    ip = ray.util.get_node_ip_address()
    return f"tcp://{ip}:{socket.bind_to_random_port(f'tcp://{ip}')}"

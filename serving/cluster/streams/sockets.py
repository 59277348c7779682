"""Addresses of receivers, the wires to them, and the encoding of messages.

On one host a receiver is a Unix socket in a folder that only its user can enter. Where a Ray cluster may have several
nodes, it has a port on its node too (`network`). Addresses travel by Ray: a process that has one may send there.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import ray

from serving.cluster.actor_process import this_node
from serving.cluster.streams.curve_keys import CurveKeys
from serving.cluster.streams.network import connect_port, open_port
from serving.cluster.streams.wire import Listener, Wire, connected
from serving.process.run_folder import hold

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


class Host(NamedTuple):
    """Where receivers are: a node of Ray's, and its IP address, if they are open to others ("": they are not)."""

    node: str
    ip: str = ""


def here(others: bool) -> Host:
    """Return this host; open to `others`: nodes of Ray's."""
    return Host(this_node(), ray.util.get_node_ip_address() if others else "")


def listen(folder: Path, name: str, host: Host) -> tuple[Listener, Address]:
    """Listen in a folder of this `host`, made if need be."""
    listener = Listener(hold(folder) / f"{name}-{os.getpid()}")
    port, keys = open_port(listener.path, host.ip) if host.ip else ("", None)
    return listener, Address(host.node, str(listener.path), port, keys)


def connect(address: Address) -> Wire:
    """Connect to a receiver."""
    if this_node() == address.node:
        return connected(Path(address.path))
    return connect_port(address.port, address.keys)


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

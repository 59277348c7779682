"""Keys of connections over the network: only senders that have the keys in a receiver's address may send to it.

CURVE, as ZeroMQ has it, encrypts; that only known keys get in is ZAP's (rfc.zeromq.org/spec/27): for each connection
the library asks a socket inside the process.
"""

import secrets
import threading
from functools import cache
from typing import Any, NamedTuple

import zmq
from zmq.utils import z85


class CurveKeys(NamedTuple):
    """A sender's keys: the receiver's public key, and a pair of its own that the receiver knows."""

    server: bytes
    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return "Keys(...)"


def lock(socket: Any) -> CurveKeys:
    """Have a receiving socket, which is bound after this, admit only senders that have the keys; return the keys."""
    (server, server_secret), (public, secret) = zmq.curve_keypair(), zmq.curve_keypair()
    domain = secrets.token_hex(8).encode()
    _known()[domain] = z85.decode(public)
    socket.curve_server = True
    socket.curve_secretkey = server_secret
    socket.zap_domain = domain
    # If nobody answers what ZAP asks, nobody gets in.
    socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)
    return CurveKeys(server, public, secret)


def unlock(socket: Any, keys: CurveKeys) -> None:
    """Have a sending socket, which is connected after this, show its keys."""
    socket.curve_serverkey = keys.server
    socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret


@cache
def _known() -> dict[bytes, bytes]:
    """Return the admitted keys by domain, one for each receiver of this process, and start the thread that answers."""
    known: dict[bytes, bytes] = {}
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REP)
    socket.bind("inproc://zeromq.zap.01")
    threading.Thread(target=_answer, args=[socket, known], daemon=True).start()
    return known


def _answer(socket: Any, known: dict[bytes, bytes]) -> None:
    while True:
        version, request, domain, _address, _identity, mechanism, *credentials = socket.recv_multipart()
        admitted = mechanism == b"CURVE" and domain in known and credentials == [known[domain]]
        code, text = (b"200", b"OK") if admitted else (b"400", b"unknown key")
        socket.send_multipart([version, request, code, text, b"", b""])

"""The sockets by which an engine of vLLM's and its front end reach each other; the front end has bound them."""

import asyncio
from collections.abc import Callable

import msgspec
import zmq
import zmq.asyncio
from vllm.v1.engine import EngineCoreOutputs, EngineCoreReadyResponse
from vllm.v1.engine.utils import EngineHandshakeMetadata
from vllm.v1.serial_utils import MsgpackEncoder
from zmq.utils.monitor import recv_monitor_message

from serving.cluster.streams.network import unlimited
from serving.cluster.streams.wire import MOST_BYTES

# vLLM's name for the only engine of a front end: its index, as two bytes.
IDENTITY = (0).to_bytes(2, "little")
LINGER_MS = 1000
# A front end that has answered is to be where it said within so many real seconds.
CONNECT_S = 10.0

Take = Callable[["ApiServer", list[bytes]], None]


class ApiServer:
    """One of a front end's API servers: its requests come on the running loop, its outputs are sent without waiting."""

    def __init__(self, requests: str, outputs: str, within_s: float | None = None) -> None:
        """Connect to the addresses of its two sockets; if nobody is there `within_s` real seconds, it is gone."""
        self._requests, self._outputs = _socket(zmq.DEALER), _socket(zmq.PUSH)
        self._encoder = MsgpackEncoder()
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._monitor: zmq.Socket[bytes] = self._requests.get_monitor_socket(
            zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED
        )
        # Connected once the monitor is there: it would miss the event otherwise.
        self._connect(requests, outputs)
        self._timer = None if within_s is None else self._loop.call_later(within_s, self._end)
        self._readers: list[int] = []
        self._watch(self._monitor, self._notice)

    def greet(self, ready: EngineCoreReadyResponse) -> None:
        """Say that there is an engine: from then on it can be sent requests."""
        self._requests.send(msgspec.msgpack.encode(ready))

    def listen(self, take: Take) -> None:
        """Hand over each message from now on."""
        self._watch(self._requests, lambda: self._drain(take))

    def send(self, outputs: EngineCoreOutputs) -> None:
        """Send what a step gave, or an answer."""
        if not self._outputs.closed:
            self._outputs.send_multipart(self._encoder.encode(outputs), copy=False)

    async def gone(self) -> None:
        """Wait until it has ended."""
        await self._gone

    def close(self) -> None:
        """Drop the connection, and what was not delivered over it."""
        self._stop_timer()
        for descriptor in self._readers:
            self._loop.remove_reader(descriptor)
        self._requests.disable_monitor()
        for socket in (self._requests, self._outputs):
            socket.close(linger=0)

    def _watch(self, socket: "zmq.Socket[bytes]", read: Callable[[], None]) -> None:
        self._readers.append(int(socket.get(zmq.FD)))
        self._loop.add_reader(self._readers[-1], read)
        # The descriptor tells of the first of several messages only.
        self._loop.call_soon(read)

    def _drain(self, take: Take) -> None:
        while not self._requests.closed:
            try:
                frames = self._requests.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            take(self, frames)

    def _notice(self) -> None:
        while not self._monitor.closed:
            try:
                event = recv_monitor_message(self._monitor, zmq.NOBLOCK)["event"]
            except zmq.Again:
                return
            self._stop_timer()
            if event == zmq.EVENT_DISCONNECTED:
                self._end()

    def _connect(self, requests: str, outputs: str) -> None:
        try:
            self._requests.connect(requests)
            self._outputs.connect(outputs)
        except zmq.ZMQError:
            self._requests.disable_monitor()
            for socket in (self._requests, self._outputs):
                socket.close(linger=0)
            raise

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)


async def shake_hands(address: str, ready: EngineCoreReadyResponse) -> list[ApiServer]:
    """Wait for the front end at an address, and be its engine; its API servers."""
    context = zmq.asyncio.Context(zmq.Context.instance())
    while True:
        with context.socket(zmq.DEALER) as greeting:
            greeting.setsockopt(zmq.IDENTITY, IDENTITY)
            greeting.setsockopt(zmq.LINGER, 0)
            greeting.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
            answer = await _greeted(greeting, address)
            if answer is None:
                continue
            where = msgspec.msgpack.decode(answer, type=EngineHandshakeMetadata).addresses
            if not where.inputs or len(where.inputs) != len(where.outputs):
                counts = f"{len(where.inputs)} addresses for requests, and {len(where.outputs)} for outputs"
                raise ValueError(f"it has {counts}")
            addresses = zip(where.inputs, where.outputs, strict=True)
            servers = [ApiServer(*sockets, within_s=CONNECT_S) for sockets in addresses]
            for server in servers:
                server.greet(ready)
            greeting.setsockopt(zmq.LINGER, LINGER_MS)
            await greeting.send(_said("READY"))
            return servers


async def _greeted(greeting: zmq.asyncio.Socket, address: str) -> bytes | None:
    """Greet whoever is, or will be, at an address; its answer, or None if it has ended before. It may take its time,
    and must not be greeted twice."""
    monitor = greeting.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    greeting.connect(address)
    await greeting.send(_said("HELLO"))
    answer, gone = asyncio.ensure_future(greeting.recv()), asyncio.ensure_future(monitor.recv_multipart())
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        return bytes(answer.result()) if answer.done() else None
    finally:
        answer.cancel()
        gone.cancel()
        greeting.disable_monitor()


def _said(status: str) -> bytes:
    # As of an engine on another host: it was not started by the front end, and starts none itself.
    return msgspec.msgpack.encode({"status": status, "local": False, "headless": True})


def _socket(kind: int) -> "zmq.Socket[bytes]":
    socket = unlimited(kind)
    if kind == zmq.DEALER:
        socket.set(zmq.IDENTITY, IDENTITY)
    return socket

"""An edge's two sockets to the engine core, which connects to them as an engine of vLLM's does to its front end."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import zmq
from vllm.v1.engine import EngineCoreReadyResponse, EngineCoreRequestType
from vllm.v1.serial_utils import MsgpackEncoder

from serving.cluster.streams.sockets import unlimited
from serving.edge.front_ends.engine_sockets import IDENTITY
from serving.edge.front_ends.own_edge import EdgeAddresses

LOOK_S = 0.01


class CoreSockets:
    """Sends requests without waiting; hands over outputs on the running loop."""

    def __init__(self, addresses: EdgeAddresses) -> None:
        """Bind both sockets."""
        self._requests, self._outputs = unlimited(zmq.ROUTER), unlimited(zmq.PULL)
        self._requests.bind(addresses.requests)
        self._outputs.bind(addresses.outputs)
        self._encoder = MsgpackEncoder()
        self._loop = asyncio.get_running_loop()

    async def ready(self) -> EngineCoreReadyResponse:
        """Wait until the engine core has connected; return what it says of itself."""
        while True:
            try:
                _, said = self._requests.recv_multipart(zmq.NOBLOCK)
                return msgspec.msgpack.decode(said, type=EngineCoreReadyResponse)
            except zmq.Again:
                await asyncio.sleep(LOOK_S)

    def send(self, kind: EngineCoreRequestType, message: Any) -> None:
        """Send a message, whoever may be there."""
        if not self._requests.closed:
            self._requests.send_multipart((IDENTITY, kind.value, *self._encoder.encode(message)), copy=False)

    def listen(self, take: Callable[[list[bytes]], None]) -> None:
        """Hand over each message of the engine core from now on."""
        self._loop.add_reader(int(self._outputs.get(zmq.FD)), self._drain, take)
        # The descriptor tells of the first of several messages only.
        self._loop.call_soon(self._drain, take)

    def close(self) -> None:
        """Drop the connection, and what was not delivered over it."""
        self._loop.remove_reader(int(self._outputs.get(zmq.FD)))
        for socket in (self._requests, self._outputs):
            socket.close(linger=0)

    def _drain(self, take: Callable[[list[bytes]], None]) -> None:
        while not self._outputs.closed:
            try:
                frames = self._outputs.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            take(frames)

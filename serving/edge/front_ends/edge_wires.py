"""The wire between an edge in a process of its own and the engine core, from either end.

Over it go vLLM's messages between a front end and an engine, as vLLM encodes them, and both ways at once. An edge is on
the engine core's host, always; ZeroMQ, by which vLLM's own front ends are reached (`engine_sockets`), takes three times
as long for each message.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from vllm.v1.engine import EngineCoreOutputs, EngineCoreReadyResponse, EngineCoreRequestType
from vllm.v1.serial_utils import MsgpackEncoder

from serving.cluster.streams.wire import Listener, Wire, dial
from serving.cluster.streams.wire_reader import WireReader

LOOK_S = 0.01


class EdgeWire:
    """The engine core's end. Its requests come on the running loop, its outputs are sent without waiting."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._encoder, self._parts = wire, MsgpackEncoder(), Parts()
        self._reader: WireReader | None = None
        self._gone = asyncio.Event()

    @classmethod
    async def to(cls, path: Path) -> "EdgeWire":
        """Connect to the edge that listens at a path, once it does."""
        while True:
            try:
                return cls(dial(path))
            except OSError:
                await asyncio.sleep(LOOK_S)

    def greet(self, ready: EngineCoreReadyResponse) -> None:
        """Say that there is an engine: from then on it can be sent requests."""
        self._wire.send(msgspec.msgpack.encode(ready))

    def listen(self, take: "Callable[[EdgeWire, list[bytes]], None]") -> None:
        """Hand over each message from now on."""

        def each(messages: Sequence[memoryview]) -> None:
            for message in messages:
                take(self, self._parts.of(message))

        self._reader = WireReader(self._wire, each, lambda error: self._gone.set())

    def send(self, outputs: EngineCoreOutputs) -> None:
        """Send what a step gave, or an answer."""
        self._wire.send(self._parts.joined(self._encoder.encode(outputs)))

    async def gone(self) -> None:
        """Wait until the edge has ended."""
        await self._gone.wait()

    def close(self) -> None:
        """Drop the connection, and what was not delivered over it."""
        (self._reader or self._wire).close()


class CoreWire:
    """The edge's end. It sends requests without waiting, and hands over outputs on the running loop."""

    def __init__(self, path: Path) -> None:
        """Listen at a path for the engine core."""
        self._listener, self._encoder, self._parts = Listener(path), MsgpackEncoder(), Parts()

    async def ready(self) -> EngineCoreReadyResponse:
        """Wait until the engine core has connected; return what it says of itself."""
        while (wire := self._listener.accept()) is None:
            await asyncio.sleep(LOOK_S)
        self._wire = wire
        while not (said := wire.receive()):
            await asyncio.sleep(LOOK_S)
        # It may have passed on an abort, or an answer to the edge before this one, meanwhile.
        first, *self._early = said
        return msgspec.msgpack.decode(first, type=EngineCoreReadyResponse)

    def send(self, kind: EngineCoreRequestType, message: Any) -> None:
        """Send a message, whoever may be there."""
        self._wire.send(self._parts.joined([kind.value, *self._encoder.encode(message)]))

    def listen(self, take: Callable[[list[bytes]], None], taken: Callable[[], None]) -> None:
        """Hand each message of the engine core since `ready` to `take`, and call `taken` after those that are here
        together. This process ends with that one's in any case."""

        def each(messages: Sequence[memoryview]) -> None:
            for message in messages:
                take(self._parts.of(message))
            taken()

        self._reader = WireReader(self._wire, each)
        each(self._early)

    def close(self) -> None:
        """Drop the connection, and what was not delivered over it."""
        self._listener.close()
        self._reader.close()


class Parts:
    """The parts of a message of vLLM's, which has one, and more for large arrays, in one message."""

    def __init__(self) -> None:
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[bytes])

    def joined(self, parts: Sequence[Any]) -> bytes:
        """Return the parts as one message."""
        return self._encoder.encode(parts)

    def of(self, message: memoryview) -> list[bytes]:
        """Return the parts of a message."""
        return self._decoder.decode(message)

"""Calls of a process that must not wait: on its event loop, to a receiver with an address."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import msgspec

from serving.cluster.streams.rpc import ONE_WAY, Answer, RpcError, encoded
from serving.cluster.streams.sockets import Address, connect, decoder, encoder
from serving.cluster.streams.wire_reader import WireReader

Value = TypeVar("Value")


class AsyncRpcClient:
    """A client of one receiver's methods, on the running loop, until it is closed."""

    def __init__(self, address: Address, ended: Callable[[], object] = lambda: None) -> None:
        """Connect; `ended` is called once the receiver has gone."""
        self._wire = connect(address)
        self._encoder, self._answers = encoder(), decoder(Answer)
        self._decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}
        self._number = ONE_WAY
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._loop = asyncio.get_running_loop()
        self._reader = WireReader(self._wire, self._take, lambda error: ended())

    def tell(self, method: str, *arguments: Any) -> None:
        """Call a method whose answer nobody needs."""
        self._send(ONE_WAY, method, arguments)

    async def call(self, method: str, *arguments: Any) -> msgspec.Raw:
        """Call a method, and return what it returned once it is done. Raise RpcError, or ConnectionError if this is
        closed meanwhile.

        A receiver that has gone does not answer; who knows that closes this.
        """
        if self._wire.closed:
            raise ConnectionResetError(f"{method}: the connection is closed")
        self._number += 1
        number, answered = self._number, self._loop.create_future()
        self._waiting[number] = answered
        try:
            self._send(number, method, arguments)
            value: msgspec.Raw = await answered
            return value
        finally:
            self._waiting.pop(number, None)

    async def ask(self, method: str, returns: type[Value]) -> Value:
        """Call a method without arguments, as `call` does, and return its value."""
        if returns not in self._decoders:
            self._decoders[returns] = decoder(returns)
        return cast(Value, self._decoders[returns].decode(await self.call(method)))

    def close(self) -> None:
        """Drop the connection; calls that wait for an answer raise ConnectionError."""
        if self._wire.closed:
            return
        self._reader.close()
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(ConnectionResetError("the other side is gone"))

    def _send(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        self._wire.send(encoded(self._encoder, number, method, arguments))

    def _take(self, messages: Sequence[memoryview]) -> None:
        for message in messages:
            answer = self._answers.decode(message)
            answered = self._waiting.get(answer.number)
            if answered is None or answered.done():
                continue
            if answer.error:
                answered.set_exception(RpcError(answer.error))
            else:
                answered.set_result(answer.value.copy())  # what it is part of may be overwritten by then

"""Calls of a process that must not wait: on its event loop, to a receiver with an address."""

import asyncio
from collections.abc import Sequence
from typing import Any

from serving.cluster.streams.rpc import ONE_WAY, Answer, RpcError, encoded
from serving.cluster.streams.sockets import Address, connect, decoder, encoder
from serving.cluster.streams.wire_reader import WireReader


class AsyncRpcClient:
    """A client of one receiver's methods, on the running loop, until it is closed."""

    def __init__(self, address: Address) -> None:
        self._wire = connect(address)
        self._encoder, self._answers = encoder(), decoder(Answer)
        self._number = ONE_WAY
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._reader = WireReader(self._wire, self._take)

    def tell(self, method: str, *arguments: Any) -> None:
        """Call a method whose answer nobody needs."""
        self._send(ONE_WAY, method, arguments)

    async def call(self, method: str, *arguments: Any) -> None:
        """Call a method, and wait until it is done. Raise RpcError, or ConnectionError if this is closed meanwhile.

        A receiver that has gone does not answer; who knows that closes this.
        """
        if self._wire.closed:
            raise ConnectionResetError(f"{method}: the connection is closed")
        self._number += 1
        number, answered = self._number, self._loop.create_future()
        self._waiting[number] = answered
        try:
            self._send(number, method, arguments)
            await answered
        finally:
            self._waiting.pop(number, None)

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
                answered.set_result(None)

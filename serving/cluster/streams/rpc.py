"""Calls between processes: of a device to its scheduler, the device model and its slow tier; of the edge to devices.

A call of Ray's costs ten times as much, and these are made at every change of a batch. Only Ray knows whether an actor
that does not answer is still there: so Ray is asked then.
"""

import inspect
import selectors
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import ray

from serving.cluster.streams.sockets import Address, connect, decoder, encoder, here, listen
from serving.cluster.streams.wire import TooLong, Wire
from serving.cluster.supervision.deaths import StateLost
from serving.types import DroppedMessages

# Seconds between two signs of life of a thread that waits for calls.
LOOK_S = 1.0
# Seconds without an answer, after which a caller asks Ray whether the actor is still there.
PATIENCE_S = 0.25
# ... and seconds before that once it has hung up, so that Ray has seen why.
HUNG_UP_S = 0.02
# The number of a call that wants no answer.
ONE_WAY = 0

Drop = Callable[[DroppedMessages], object]


class RpcCall(msgspec.Struct, array_like=True):
    """A call of a method, with its arguments in order. Its answer bears its number; `ONE_WAY` wants none."""

    number: int
    method: str
    arguments: msgspec.Raw


class Answer(msgspec.Struct, array_like=True):
    """The value that a call returned, or its error, whose last line says what happened.

    `forgotten`: the error was `StateLost`.
    """

    number: int
    value: msgspec.Raw
    error: str = ""
    forgotten: bool = False


class RpcError(RuntimeError):
    """A call that failed on the other side; the last line says why."""


class Method:
    """A method that can be called, with a decoder of its arguments."""

    def __init__(self, method: Callable[..., Any]) -> None:
        hints = get_type_hints(method)
        kinds = tuple(hints[name] for name in inspect.signature(method).parameters)
        self._method = method
        self._arguments = decoder(tuple[kinds] if kinds else tuple[()])  # type: ignore[valid-type]

    def __call__(self, arguments: msgspec.Raw) -> Any:
        return self._method(*self._arguments.decode(arguments))


class RpcServer:
    """A server of methods that other processes call, one call after the other, on the thread that runs it."""

    def __init__(self, methods: Sequence[Callable[..., Any]], folder: Path, name: str, others: bool) -> None:
        """`others`: open to nodes of Ray's, beside this host. Methods must annotate arguments with types to decode."""
        self._listener, self.address = listen(folder, name, here(others))
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._listener, selectors.EVENT_READ)
        self._methods = {method.__name__: Method(method) for method in methods}
        self._calls, self._encoder = decoder(RpcCall), encoder()
        self._looked_s = time.monotonic()

    @property
    def overdue_s(self) -> float:
        """Real seconds by which the thread that runs the server is late to look for calls."""
        return max(0.0, time.monotonic() - self._looked_s - LOOK_S)

    def run(self, drop: Drop) -> None:
        """Answer calls for ever; report to `drop` each message that is no call, or fails with nobody waiting for it."""
        while True:
            self._looked_s = time.monotonic()
            for ready, _ in self._ready.select(LOOK_S):
                if isinstance(ready.fileobj, Wire):
                    self._receive(ready.fileobj, drop)
                elif caller := self._listener.accept():
                    self._ready.register(caller, selectors.EVENT_READ)

    def _receive(self, caller: Wire, drop: Drop) -> None:
        """Answer what a caller has asked."""
        try:
            for message in caller.receive():
                self._looked_s = time.monotonic()
                self._take(caller, message, drop)
        except ConnectionError as error:
            self._ready.unregister(caller)
            caller.close()
            if isinstance(error, TooLong):
                drop(DroppedMessages(1, str(error)))

    def _take(self, caller: Wire, message: memoryview, drop: Drop) -> None:
        number = ONE_WAY
        try:
            call = self._calls.decode(message)
            number = call.number
            value = self._methods[call.method](call.arguments)
            if number == ONE_WAY:
                return
            answer = Answer(number, self._raw(value))
        except Exception as error:
            if number == ONE_WAY:
                drop(DroppedMessages(1, f"{type(error).__name__}: {error}"))
                return
            why = str(error) if isinstance(error, StateLost) else traceback.format_exc()
            answer = Answer(number, self._raw(None), why, isinstance(error, StateLost))
        caller.send(self._encoder.encode(answer))

    def _raw(self, value: Any) -> msgspec.Raw:
        return msgspec.Raw(self._encoder.encode(value))


class RpcTeller:
    """A client of one receiver's methods whose answers nobody needs. For one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._wire, self._encoder = connect(address), encoder()

    def tell(self, method: str, *arguments: Any) -> None:
        """Call a method."""
        self._wire.send(encoded(self._encoder, ONE_WAY, method, arguments))

    def close(self) -> None:
        """Drop the connection, with all calls that were not delivered."""
        self._wire.close()


class RpcClient:
    """A client of the methods of an actor that has an `address`. For one thread at a time."""

    def __init__(self, actor: Any) -> None:
        """Connect to an actor. Raise RayError if it is dead."""
        self._actor = actor
        self._encoder, self._answers = encoder(), decoder(Answer)
        self._decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {}
        self._number, self._last = ONE_WAY, b""
        self._asked: Any = None
        self._hung_up = self._closed = False
        self._address: Address = ray.get(actor.address.remote())
        self._wire = connect(self._address)

    def call(self, method: str, returns: Any, *arguments: Any) -> Any:
        """Call a method, and return its value. Raise RpcError, StateLost, or RayError if the actor is dead."""
        number = self.ask(method, *arguments)
        while True:
            for message in self._next():
                answer = self._answers.decode(message)
                if answer.number == number:
                    return self._value(method, returns, answer)

    def ask(self, method: str, *arguments: Any) -> int:
        """Call a method without waiting for its value; return the number of the call."""
        self._number += 1
        self._send(self._number, method, arguments)
        return self._number

    def tell(self, method: str, *arguments: Any) -> None:
        """Call a method whose answer nobody needs."""
        self._send(ONE_WAY, method, arguments)

    def latest(self, method: str, returns: Any) -> Any:
        """Return the value of the last answered call of a method; None if none was answered since the last time.

        There may be no calls of other methods meanwhile.
        """
        value = None
        try:
            for message in self._wire.receive():
                value = self._value(method, returns, self._answers.decode(message))
        except ConnectionError:
            self._hung_up = True
        return value

    def look(self, wait: bool) -> None:
        """Ask Ray whether the actor is still in the same process; if not, send the last call to its new process.

        With `wait`, wait for Ray's answer. Raise RayError if the actor is dead, StateLost if this was closed.
        """
        if self._closed:
            raise StateLost("The connection was closed.")
        if self._asked is None:
            self._asked = self._actor.address.remote()
        if wait or ray.wait([self._asked], timeout=0)[0]:
            address, self._asked = ray.get(self._asked), None
            if address != self._address or self._hung_up:
                self._address, self._hung_up = address, False
                self._wire.close()
                self._wire = connect(address)
                self._wire.send(self._last)

    def close(self) -> None:
        """Drop the connection for good, with all calls that were not delivered."""
        self._closed = True
        self._wire.close()

    def _next(self) -> list[memoryview]:
        """Return the next messages, once there are any, or none once Ray was asked where they might come from."""
        try:
            if messages := self._wire.wait(PATIENCE_S):
                return messages
        except ConnectionError:
            self._hung_up = True
            time.sleep(HUNG_UP_S)
        # Whoever is there, only slow, answers by the wire: Ray's answer may take longer than his.
        self.look(wait=self._hung_up)
        return []

    def _send(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        self._last = encoded(self._encoder, number, method, arguments)
        self._wire.send(self._last)

    def _value(self, method: str, returns: Any, answer: Answer) -> Any:
        if answer.error:
            raise StateLost(answer.error) if answer.forgotten else RpcError(answer.error)
        if method not in self._decoders:
            self._decoders[method] = decoder(returns)
        return self._decoders[method].decode(answer.value)


def encoded(encoder: msgspec.msgpack.Encoder, number: int, method: str, arguments: tuple[Any, ...]) -> bytes:
    """Return a call as a message."""
    return encoder.encode(RpcCall(number, method, msgspec.Raw(encoder.encode(arguments))))

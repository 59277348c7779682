"""Utility calls of an edge in a process of its own to the engine core (see `edge_messages`), and their answers."""

import asyncio
from collections.abc import Callable
from itertools import count

import msgspec
from vllm.v1.engine import EngineCoreRequestType, UtilityOutput

from serving.edge.front_ends.edge_messages import NO_ANSWER
from serving.edge.front_ends.edge_wires import CoreWire
from serving.edge.refusals import GivenUp

# Real seconds after which a question without an answer is asked again.
AGAIN_S = 2.0
LOST = "A message about this request was lost on its way."


class CoreCalls:
    """What is asked of the engine core, and told it, over a wire."""

    def __init__(self, wire: CoreWire) -> None:
        self._wire, self._numbers = wire, count(NO_ANSWER + 1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    def tell(self, method: str, message: msgspec.Struct | None = None) -> None:
        """Make a call that nobody waits for."""
        self._call(NO_ANSWER, method, message)

    def ask(self, method: str, message: msgspec.Struct) -> asyncio.Future[bytes]:
        """Make a call; return its answer to come, which is lost if a message is."""
        number, answer = self._expect()
        self._call(number, method, message)
        return answer

    async def ask_again(self, method: str, message: msgspec.Struct | None, is_wanted: Callable[[], bool]) -> bytes:
        """Make a call, and the same one again every `AGAIN_S` until it is answered, as a message may be lost: by its
        number the core tells that it was made before, and gives the same answer. Raise GivenUp once no answer
        `is_wanted` any more."""
        number, answer = self._expect()
        try:
            while not answer.done():
                if not is_wanted():
                    raise GivenUp(LOST)
                self._call(number, method, message)
                await asyncio.wait((answer,), timeout=AGAIN_S)
            return answer.result()
        finally:
            answer.cancel()

    def take(self, output: UtilityOutput) -> None:
        """Take an answer in; one that nobody waits for is ignored."""
        if (waiting := self._waiting.get(output.call_id)) is None or waiting.done():
            return
        if output.failure_message is None:
            waiting.set_result(output.result.result)
        else:
            waiting.set_exception(RuntimeError(output.failure_message))

    def _expect(self) -> tuple[int, asyncio.Future[bytes]]:
        """Return the number of a call, and its answer to come."""
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(number))
        return number, answer

    def _call(self, number: int, method: str, message: msgspec.Struct | None) -> None:
        arguments = (msgspec.msgpack.encode(message),)
        self._wire.send(EngineCoreRequestType.UTILITY, (0, number, method, arguments))

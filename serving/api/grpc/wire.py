"""A call's stream, for chunks that are written to it past the generators and tasks that serve the call."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from serving.api.grpc.codec import event_json, reply

Context = grpc.aio.ServicerContext[Any, Any]
PutText = Callable[[Any, str], None]


class GrpcWire:
    """Writes a stream's messages, one at a time. `put_text` puts text into the choice of a message of class `kind`."""

    def __init__(self, context: Context, kind: type[Any], put_text: PutText) -> None:
        self._context, self._kind, self._put_text = context, kind, put_text
        self._writing: asyncio.Task[Any] | None = None

    def writer(self, head: str, tail: str) -> Callable[[str], bool]:
        """Return a function that writes text as a JSON string between these, and tells whether it could: not while the
        last text is on its way, as it is for long if the client is slow, or gone."""
        form = self._form(head, tail)
        choice, put_text, write, start = form.choices[0], self._put_text, self._context.write, asyncio.create_task

        def write_text(text: str) -> bool:
            if self._writing is not None and not self._writing.done():
                return False
            put_text(choice, text)
            self._writing = start(write(form))
            self._writing.add_done_callback(_notice)
            return True

        return write_text

    async def write(self, message: Any) -> None:
        """Write a message after all that was written before. Raise what gRPC raises if the call is over."""
        if self._writing is not None:
            await self._writing
        await self._context.write(message)

    def _form(self, head: str, tail: str) -> Any:
        return reply(self._kind, event_json(f'{head}""{tail}') or {})


def _notice(writing: asyncio.Task[Any]) -> None:
    """Notice what a write failed with: that of a client that has left is awaited by nobody, which asyncio would log."""
    if not writing.cancelled():
        writing.exception()

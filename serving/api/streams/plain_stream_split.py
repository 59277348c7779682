"""Streams of text alone, of which vLLM writes the first chunk and the last: those between go past it.

Its generator of chunks is given the first output, and then one with a mark for its text. What it makes of that is the
form of all chunks that follow. With the last output it goes on as if it had made them.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec

from serving.call import current_call
from serving.edge.delivery.apart_outputs import ApartOutputs
from serving.edge.delivery.plain_stream import PlainStream

MARK = f"foreserve-{uuid4().hex}"
Events = AsyncGenerator[str, None]


class TextEvent(str):
    """A chunk as a server-sent event, with `text` for who sends it in another form."""

    text: str

    @classmethod
    def of(cls, head: str, text: str, tail: str) -> "TextEvent":
        """Return the chunk that has the text as a JSON string between head and tail."""
        piece = cls(head + msgspec.json.encode(text).decode() + tail)
        piece.text = text
        return piece


def stream_chat_plainly(serving: Any, outputs: ApartOutputs) -> None:
    """Have vLLM's server of chats stream so."""
    chunks = serving.chat_completion_stream_generator

    def stream(request: Any, results: Any, request_id: str, *args: Any, **kwargs: Any) -> Events:
        if serving.parser_cls is not None or serving.enable_log_outputs or not is_plain(request, serving):
            return chunks(request, results, request_id, *args, **kwargs)  # type: ignore[no-any-return]
        split = PlainStreamSplit(outputs, request_id, results, marked)
        return split.events(chunks(request, split.outputs(), request_id, *args, **kwargs))

    serving.chat_completion_stream_generator = stream


def stream_completions_plainly(serving: Any, outputs: ApartOutputs) -> None:
    """Have vLLM's server of completions stream so."""
    chunks = serving.completion_stream_generator

    def stream(request: Any, prompts: Any, results: Any, request_id: str, *args: Any, **kwargs: Any) -> Events:
        if len(prompts) > 1 or not is_plain(request, serving):
            return chunks(request, prompts, results, request_id, *args, **kwargs)  # type: ignore[no-any-return]
        split = PlainStreamSplit(outputs, f"{request_id}-0", results, marked_of_prompt)
        return split.events(chunks(request, prompts, split.outputs(), request_id, *args, **kwargs))

    serving.completion_stream_generator = stream


def is_plain(request: Any, serving: Any) -> bool:
    """Tell whether the chunks of a request differ in nothing but their text, as far as its own words and those of the
    server's `serving` say."""
    asks_usage = request.stream_options is not None and request.stream_options.continuous_usage_stats
    asks_usage = asks_usage or serving.enable_force_include_usage
    # Of completions 0 asks for the tokens' own.
    logprobs = request.logprobs is not None and request.logprobs is not False
    counts = request.return_token_ids or logprobs or asks_usage
    return not counts and request.response_format is None and request.structured_outputs is None


def marked(output: Any) -> Any:
    """Return an output without tokens that has the mark for its text."""
    choice, output = copy.copy(output.outputs[0]), copy.copy(output)
    choice.text, choice.token_ids = MARK, []
    output.outputs = [choice]
    return output


def marked_of_prompt(item: tuple[int, Any]) -> tuple[int, Any]:
    """Return the same where outputs come with the number of their prompt."""
    return item[0], marked(item[1])


class PlainStreamSplit:
    """One stream: its outputs, as vLLM's generator of chunks gets them, and its chunks."""

    def __init__(self, processor: ApartOutputs, request_id: str, results: Any, mark: Callable[[Any], Any]) -> None:
        """`results` are vLLM's outputs of the request with this external id; `mark` makes one with the mark."""
        self._processor, self._request_id, self._results, self._mark = processor, request_id, results, mark
        self._stream: PlainStream | None = None
        self._next: asyncio.Task[Any] | None = None

    async def outputs(self) -> AsyncGenerator[Any, None]:
        """Yield the first output and, if those that follow can go past vLLM, one with the mark and what comes last."""
        async for first in self._results:
            yield first
            if self._stream is None:
                self._stream = self._processor.divert(self._request_id)
            if self._stream is not None and self._next is None:
                yield self._mark(first)
                assert self._next is not None, "whoever sees the mark looks for what comes next"
                last = await self._next
                choice = (last[1] if isinstance(last, tuple) else last).outputs[0]
                choice.token_ids = [*self._stream.tokens, *choice.token_ids]
                yield last

    async def events(self, chunks: Events) -> Events:
        """Yield the chunks that have not been written already."""
        try:
            async with aclosing(chunks):
                async for event in chunks:
                    if self._stream is None or MARK not in event:
                        yield event
                        continue
                    head, tail = event.split(f'"{MARK}"')
                    async for piece in self._pieces(self._stream, head, tail):
                        yield piece
        finally:
            if self._stream is not None:
                self._processor.restore(self._stream)
            if self._next is not None:
                self._next.cancel()
            else:
                await self._results.aclose()

    async def _pieces(self, stream: PlainStream, head: str, tail: str) -> AsyncGenerator[TextEvent, None]:
        self._next = asyncio.create_task(self._await_next())
        self._next.add_done_callback(partial(_end, stream))
        call = current_call()
        write = call.wire.writer(head, tail) if call is not None and call.wire is not None else None
        while (text := await stream.kept(write)) is not None:
            yield TextEvent.of(head, text, tail)

    async def _await_next(self) -> Any:
        return await anext(self._results)


def _end(stream: PlainStream, last: asyncio.Task[Any]) -> None:
    """End a stream, as its last output has come."""
    # An error of which nobody hears any more, as its client has gone, is no news.
    if not last.cancelled():
        last.exception()
    stream.end()

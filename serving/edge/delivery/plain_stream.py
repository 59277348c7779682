"""Plain stream: carries a text-only stream's tokens past vLLM's front end, between the first and the last.

vLLM builds objects for each token, wakes a task that hands them through its application, and takes a tenth of a
millisecond for that. Here the text goes from the release straight to the connection.
"""

import asyncio
from collections.abc import Callable, Sequence

from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer

Write = Callable[[str], bool]
"""Writes text to a client at once, and says whether it could: who reads slowly is waited for."""


class PlainStream:
    """The text of one request: written at once while its client keeps up, and kept otherwise.

    `tokens` are those that went past vLLM, whose `detokenizer` goes on behind them.
    """

    def __init__(self, request_id: str, detokenizer: BaseIncrementalDetokenizer) -> None:
        self.request_id = request_id
        self.tokens: list[int] = []
        self._detokenizer = detokenizer
        self._added: list[int] = []
        self._kept: list[str] = []
        self._write: Write | None = None
        self._news = asyncio.Event()
        self._ended = False

    def add(self, tokens: Sequence[int]) -> None:
        """Add tokens, to be written by `flush`."""
        self._added += tokens

    def flush(self) -> None:
        """Write the text of all tokens added: "" if they are a part of a character."""
        added, self._added = self._added, []
        self.tokens += added
        decode, seen = self._detokenizer.decode_next, self._detokenizer.token_ids
        text = ""
        for token in added:
            seen.append(token)
            text += decode(token)
        self.put(text)

    def put(self, text: str) -> None:
        """Write text, or keep it."""
        if self._write is None or not self._write(text):
            self._write = None
            self._kept.append(text)
            self._news.set()

    def end(self) -> None:
        """End the stream."""
        self._ended, self._write = True, None
        self._news.set()

    async def kept(self, write: Write | None) -> str | None:
        """Wait for kept text and return it; None at the end.

        While there is none, text is written by `write`, unless that is None: so write all that was returned before
        calling this again.
        """
        if not self._kept and not self._ended:
            self._news.clear()
            self._write = write
            await self._news.wait()
        if not self._kept:
            return None
        text = "".join(self._kept)
        self._kept.clear()
        return text

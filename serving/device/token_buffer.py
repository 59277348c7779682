"""Token buffer: a device's tokens that vLLM has made ahead, and the tokens that it still owes."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

import msgspec
import numpy as np

from serving.types import Chunk


@dataclass(slots=True)
class Buffer:
    """The tokens of one request between the token source and the device.

    `received` and `taken` count from the start of the request's output; it was opened at position `first`. `owed` are
    tokens that the device has computed and the source has not made: they go out the moment they come in. `source` is
    the index of the source that sent the last ones.
    """

    first: int
    received: int
    taken: int
    owed: int = 0
    source: int = 0
    ready: deque[Chunk] = field(default_factory=deque)
    text: "KnownText | None" = None


@dataclass(slots=True)
class KnownText:
    """What is known of what a request says: the ids of its prompt, if they came, and those `said` from token `first` of
    its output on."""

    prompt: list[int]
    first: int
    said: list[int]


@dataclass(slots=True, eq=False)
class TokenRows:
    """The coming tokens of some requests, which lie in their buffers: each of the `rows` has the next chunk of every
    request, none of them its last. So many were `taken`, and so many of those are `gone` from the buffers."""

    request_ids: Sequence[str]
    rows: list[list[Chunk]]
    taken: int = 0
    gone: int = 0


class TokenBuffer:
    """The buffers of one device: filled by the token source's thread, emptied by the engine's."""

    def __init__(self) -> None:
        self._buffers: dict[str, Buffer] = {}
        # The condition's own methods are Python's, and a step would call them to cold caches.
        self._lock = threading.Lock()
        self._came = threading.Condition(self._lock)
        self._rows = TokenRows((), [])

    def open(self, request_id: str, position: int = 0) -> None:
        """Expect tokens of a request, from `position` of its output on."""
        with self._lock:
            self._end_rows()
            self._buffers[request_id] = Buffer(position, position, position)

    def close(self, request_id: str) -> None:
        """Drop a request: what still comes for it is ignored."""
        with self._lock:
            self._end_rows()
            self._buffers.pop(request_id, None)

    def rows(self, request_ids: Sequence[str], most: int) -> TokenRows:
        """Return at most so many rows of coming tokens, as far as all of these requests have any. They hold until other
        rows are asked for, tokens are taken otherwise, or a request is opened or closed."""
        with self._lock:
            self._end_rows()
            buffers = [self._buffers.get(request_id) for request_id in request_ids]
            columns = [_not_last(buffer.ready, most) if buffer else [] for buffer in buffers]
            self._rows = TokenRows(request_ids, [list(row) for row in zip(*columns, strict=False)])
            return self._rows

    def take_row(self, rows: TokenRows) -> bool:
        """Take the next of these rows. Return whether they still held."""
        with self._lock:
            holds = rows is self._rows and rows.taken < len(rows.rows)
            rows.taken += holds
            return holds

    def _end_rows(self) -> None:
        self._settle()
        self._rows = TokenRows((), [])

    def _settle(self) -> None:
        """Empty the buffers of the rows that were taken: one by one that would cost a device's step as much again."""
        rows = self._rows
        if rows.gone == rows.taken:
            return
        for request_id in rows.request_ids:
            buffer = self._buffers[request_id]
            for _ in range(rows.taken - rows.gone):
                buffer.taken += len(buffer.ready.popleft().tokens)
        rows.gone = rows.taken

    def push(self, chunks: list[Chunk], source: int = 0) -> list[Chunk]:
        """Buffer chunks from a source, by its index, ignoring known tokens; return the overdue ones, to be released at
        once."""
        with self._lock:
            overdue = [without_routes(chunk) for chunk in chunks if self._accept(chunk, source)]
            self._came.notify_all()
            return overdue

    def _accept(self, chunk: Chunk, source: int) -> bool:
        buffer = self._buffers.get(chunk.request_id)
        if buffer is None:
            return False
        # Also of tokens that are known: it wants to hear how far their request is.
        buffer.source = source
        if chunk.first != buffer.received and not chunk.failed:
            return False
        if chunk.routes is not None:
            _note_text(buffer, chunk)
        buffer.received += len(chunk.tokens)
        if not buffer.owed:
            buffer.ready.append(chunk)
            return False
        buffer.owed -= 1
        buffer.taken += len(chunk.tokens)
        if chunk.finish is not None:
            del self._buffers[chunk.request_id]
        return True

    def take(self, wanted: dict[str, int]) -> tuple[list[Chunk], int]:
        """Return the next tokens of each request, as many as are `wanted`, or up to its last, and the underruns: the
        number of tokens that have not come, and are owed from now on."""
        chunks: list[Chunk] = []
        underruns = 0
        with self._lock:
            self._end_rows()
            for request_id, count in wanted.items():
                taken, missing = self._take(request_id, count)
                chunks += taken
                underruns += missing
        return chunks, underruns

    def _take(self, request_id: str, count: int) -> tuple[list[Chunk], int]:
        buffer = self._buffers.get(request_id)
        chunks: list[Chunk] = []
        if buffer is None:
            return chunks, 0
        while buffer.ready and len(chunks) < count:
            chunk = buffer.ready.popleft()
            buffer.taken += len(chunk.tokens)
            chunks.append(without_routes(chunk))
            if chunk.finish is not None:
                del self._buffers[request_id]
                return chunks, 0
        missing = count - len(chunks)
        buffer.owed += missing
        return chunks, missing

    def coming(self, request_ids: list[str], timeout_s: float = 0.0, most: int = 1) -> list[list[Chunk]]:
        """Return the chunks that `take` would give of each request, `most` of them; none where none comes within
        `timeout_s` real seconds."""
        with self._lock:
            if timeout_s > 0:
                self._came.wait_for(lambda: all(self._heads(request_ids, 1)), timeout_s)
            return self._heads(request_ids, most)

    def _heads(self, request_ids: list[str], most: int) -> list[list[Chunk]]:
        self._settle()
        buffers = [self._buffers.get(request_id) for request_id in request_ids]
        return [list(islice(buffer.ready, most)) if buffer else [] for buffer in buffers]

    def text(self, request_id: str) -> KnownText | None:
        """Return what is known of a request's text, which only tokens that come with routes tell."""
        with self._lock:
            buffer = self._buffers.get(request_id)
            text = buffer.text if buffer else None
            return None if text is None else KnownText(text.prompt, text.first, list(text.said))

    def owed(self) -> int:
        """Return the most tokens that any request is owed; if some have had any, of these: one for which none came yet
        may wait for its grammar, which is no matter of the others."""
        with self._lock:
            buffers = list(self._buffers.values())
        begun = [buffer.owed for buffer in buffers if buffer.received > buffer.first]
        return max(begun or [buffer.owed for buffer in buffers], default=0)

    def unknown(self, request_ids: list[str]) -> list[str]:
        """Return the requests among these that have no buffer."""
        with self._lock:
            return [id for id in request_ids if id not in self._buffers]

    def unowed(self, request_ids: list[str]) -> list[str]:
        """Return the requests among these that have a buffer, and are owed nothing."""
        with self._lock:
            return [id for id in request_ids if (buffer := self._buffers.get(id)) and not buffer.owed]

    def awaited(self) -> dict[str, int]:
        """Return the tokens that have come so far of each request that is owed more."""
        with self._lock:
            return {id: buffer.received for id, buffer in self._buffers.items() if buffer.owed}

    def taken(self) -> dict[int, dict[str, int]]:
        """Return the tokens taken so far, by source and request: the source may run ahead of these."""
        by_source: dict[int, dict[str, int]] = {}
        with self._lock:
            self._settle()
            for id, buffer in self._buffers.items():
                by_source.setdefault(buffer.source, {})[id] = buffer.taken
        return by_source

    def held(self) -> dict[str, tuple[int, list[int]]]:
        """Return by request how many tokens were taken, and which lie ready: a new token source goes on from there."""
        with self._lock:
            self._settle()
            return {
                id: (buffer.taken, [token for chunk in buffer.ready for token in chunk.tokens])
                for id, buffer in self._buffers.items()
            }


def _not_last(ready: deque[Chunk], most: int) -> list[Chunk]:
    return [without_routes(chunk) for chunk in takewhile(lambda chunk: chunk.finish is None, islice(ready, most))]


def without_routes(chunk: Chunk) -> Chunk:
    """Return a chunk as clients get it."""
    return chunk if chunk.routes is None else msgspec.structs.replace(chunk, routes=None, prompt=None)


def _note_text(buffer: Buffer, chunk: Chunk) -> None:
    if buffer.text is None:
        prompt = [] if chunk.prompt is None else np.frombuffer(chunk.prompt, dtype=np.uint32).tolist()
        buffer.text = KnownText(prompt, chunk.first, [])
    buffer.text.said += chunk.tokens

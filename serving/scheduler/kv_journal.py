"""Journal of a prefix cache: what it stored and evicted, for whoever follows it from outside, as KV-aware routers
do."""

from collections.abc import Sequence

from serving.types import KvEvent, Request

TOKEN_BYTES = 4


class KvJournal:
    """Keeps events in order until they are taken. One that is not `kept` keeps none."""

    def __init__(self, kept: bool, block_tokens: int) -> None:
        # Whoever followed the cache before this one knows of blocks that are gone.
        self._events = [KvEvent()] if kept else []
        self._kept, self._block_bytes = kept, block_tokens * TOKEN_BYTES

    def store(self, request: Request, places: Sequence[int]) -> None:
        """Record blocks of a request's prompt that were stored, by their places in it."""
        if not self._kept or not places:
            return
        first = places[0]
        for last, following in zip(places, [*places[1:], None], strict=True):
            if following != last + 1:
                self._events.append(self._stored(request, first, last + 1))
                first = following or 0

    def evict(self, block: int) -> None:
        """Record that a block was evicted, by its hash."""
        if self._kept:
            self._events.append(KvEvent(removed=[block]))

    def clear(self) -> None:
        """Record that the cache was emptied."""
        if self._kept:
            self._events.append(KvEvent())

    def take(self) -> list[KvEvent]:
        """Return what was recorded, and begin anew."""
        if not self._events:
            return []
        events, self._events = self._events, []
        return events

    def _stored(self, request: Request, first: int, end: int) -> KvEvent:
        parent = request.blocks[first - 1] if first else None
        tokens = request.prompt[first * self._block_bytes : end * self._block_bytes]
        return KvEvent(request.blocks[first:end], [], parent, tokens, request.salt)

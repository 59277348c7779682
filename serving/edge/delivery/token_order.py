"""Token order: the tokens of an edge's requests, by position, where some come from the devices themselves.

Those that the engine core hands on (a request's first, and its last) may be overtaken by what devices send straight;
after a failure some come twice, and a lost message leaves a gap.
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from vllm.v1.engine import FinishReason

from serving.cluster.sources.recorded_source import AHEAD, PAGE
from serving.types import Chunk

# Chunks of a request that wait behind a gap, those that follow each other counted as one: all that comes, where the
# core is behind with what it hands on. Later ones are let go, and asked for when it is closed.
MOST_HELD = 256
# Tokens that the engine core may not have heard of yet when a request is ended here: all that its device had.
MOST_LAST = AHEAD + PAGE
# Ends that wait for nothing: nobody makes the tokens before them.
FAILURES = (int(FinishReason.ABORT), int(FinishReason.ERROR))


class LastTokens(msgspec.Struct, array_like=True, frozen=True):
    """The last tokens that a request has got, from position `first` of its output on."""

    request_id: str
    first: int
    tokens: list[int]


@dataclass(slots=True)
class _Place:
    """The position of a request's next token, and its last tokens. `seen` is where that position was some `looks` ago
    (-1: nobody has looked yet)."""

    next: int = 0
    last: deque[int] = field(default_factory=lambda: deque(maxlen=MOST_LAST))
    seen: int = -1
    looks: int = 0


class TokenOrder:
    """The positions of requests in flight, and what waits behind a gap."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._held: dict[str, list[Chunk]] = {}
        self._since_s: dict[str, float] = {}

    @property
    def expected(self) -> list[str]:
        """The requests whose tokens are expected."""
        return list(self._places)

    def begin(self, request_id: str) -> None:
        """Expect a request's tokens."""
        self._places[request_id] = _Place()

    def end(self, request_ids: Iterable[str]) -> list[LastTokens]:
        """Expect nothing more of these requests; return what those of them that there were have got last."""
        ended = list[LastTokens]()
        for id in request_ids:
            self._held.pop(id, None)
            self._since_s.pop(id, None)
            if (place := self._places.pop(id, None)) and place.last:
                ended.append(LastTokens(id, place.next - len(place.last), list(place.last)))
        return ended

    def take(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Return what is next of each request, with what has waited for it; ignore known tokens, and requests that
        nobody expects."""
        ready = list[Chunk]()
        for chunk in chunks:
            place = self._places.get(chunk.request_id)
            if place is None:
                continue
            if chunk.first == place.next and chunk.finish is None and not self._held:
                # Nearly each, and nothing more is to be done for it.
                place.next += len(chunk.tokens)
                place.last.extend(chunk.tokens)
                ready.append(chunk)
            elif chunk.first > place.next and chunk.finish not in FAILURES:
                self._hold(chunk)
            elif (new := _from(place.next, chunk)) is not None:
                ready.append(new)
                self._advance(place, new, ready)
        return ready

    def missing(self, patience_s: float) -> list[tuple[str, int]]:
        """Return the requests whose next token has been waited for so many real seconds, while later ones are here, and
        its position."""
        late_s = time.monotonic() - patience_s
        return [(id, self._places[id].next) for id, since_s in self._since_s.items() if since_s <= late_s]

    def quiet(self, looks: int) -> list[tuple[str, int]]:
        """Return the requests that have got no further for so many looks, this one included, and the position of their
        next token: each once in so many. Looks count and not seconds, as an edge that was stopped has read nothing."""
        found = list[tuple[str, int]]()
        for id, place in self._places.items():
            if place.seen != place.next:
                place.seen, place.looks = place.next, 0
            elif place.looks + 1 < looks:
                place.looks += 1
            else:
                place.looks = 0
                found.append((id, place.next))
        return found

    def _hold(self, chunk: Chunk) -> None:
        held = self._held.setdefault(chunk.request_id, [])
        self._since_s.setdefault(chunk.request_id, time.monotonic())
        if chunk.direct and held and held[-1].direct and chunk.first == held[-1].first + len(held[-1].tokens):
            held[-1].tokens.extend(chunk.tokens)
        elif len(held) < MOST_HELD or chunk.finish is not None:
            held.append(chunk)

    def _advance(self, place: _Place, chunk: Chunk, ready: list[Chunk]) -> None:
        """Go on behind a chunk that was next, with those that have waited for it."""
        id = chunk.request_id
        if chunk.finish is not None:
            self.end([id])
            return
        place.next = chunk.first + len(chunk.tokens)
        place.last.extend(chunk.tokens)
        if id in self._held:
            del self._since_s[id]
            ready += self.take(sorted(self._held.pop(id), key=lambda each: each.first))


def _from(position: int, chunk: Chunk) -> Chunk | None:
    """Return a chunk without the tokens before a position of its request; None if nothing is left of it."""
    known = position - chunk.first
    if known <= 0 or not chunk.tokens:
        return chunk if chunk.tokens or chunk.finish is not None else None
    rest = chunk.tokens[known:]
    if not rest and chunk.finish is None:
        return None
    return msgspec.structs.replace(chunk, first=position, tokens=rest)

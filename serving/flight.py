"""A request as the edge tracks it, from its arrival until its client has all of it."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from serving.call import Call, Choices
from serving.types import NEVER, Chunk, Release, Request

Inbox = tuple[Any, ...]


class Sink(Protocol):
    """A front end in another process. Devices send chunks that are `direct` to its `inbox`, if it has one: an address
    of `cluster.streams`."""

    @property
    def inbox(self) -> Inbox | None: ...

    def deliver(self, release: Release, news: "list[tuple[Flight, Chunk]]") -> None:
        """Hand over what a release gives its requests."""


class Answer(Protocol):
    """A whole answer that was recorded: see `recordings.answers`."""

    def __len__(self) -> int: ...

    def page(self, start: int, end: int) -> list[Chunk]:
        """Return a chunk for each token from position `start` to `end` of the answer; none beyond its last."""


@dataclass(slots=True)
class Flight:
    """A request in flight: all that is needed to begin it again on another instance of any actor.

    `core_request` is vLLM's own (`EngineCoreRequest`), handed to the token source as it is; `slo` names the request's
    class, or is ""; `choices` are the sequences that its client asked for at once. Of its prompt, `shareable` tokens
    are in blocks that others may have in common, and `cached` are those that the device had when it began. `opened`
    tells that a device has had a buffer for its tokens; `sent_to` is the device it was sent to last, and the state of
    its link then. `call` brought the request; `rank` is the data-parallel rank that it named; `source` is the index of
    the token source that makes its tokens (None: not chosen), and `moved` tells that it was another's, and has got no
    further since; `classified_s` are the begin and end of finding its topic; `recorded` is its whole answer where vLLM
    makes none; `finish` is why it ended. `sink` gets the tokens of a request from a front end in another process.
    Instants are emulated.
    """

    core_request: object
    request: Request
    device: int
    slo: str = ""
    choices: Choices = field(default_factory=Choices)
    tokens: list[int] = field(default_factory=list)
    started_s: float | None = None
    preemptions: int = 0
    shareable: int = 0
    cached: int = 0
    first_s: float | None = None
    last_s: float = 0.0
    opened: bool = False
    rank: int | None = None
    source: int | None = None
    moved: bool = False
    sent_to: tuple[int, int] | None = None
    kv_lost: bool = False
    call: Call | None = None
    classified_s: tuple[float, float] | None = None
    recorded: Answer | None = None
    finish: str = ""
    sink: Sink | None = None

    @property
    def inbox(self) -> Inbox | None:
        """Return where its edge gets tokens straight from devices; None where it does not."""
        return None if self.sink is None else self.sink.inbox

    @property
    def resumed(self) -> Request:
        """Return the request for a scheduler that has never seen it, with the tokens its client has already."""
        return msgspec.structs.replace(self.request, released=len(self.tokens), kv_lost=self.kv_lost)

    @property
    def made(self) -> int:
        """Return the number of tokens that its client has got."""
        return len(self.tokens)

    @property
    def ttft_s(self) -> float:
        """Seconds from arrival to the first token; endless without one."""
        return NEVER if self.first_s is None else self.first_s - self.request.arrival_s

    @property
    def tpot_s(self) -> float:
        """Mean seconds per output token after the first; 0 without one."""
        later = len(self.tokens) - 1
        return (self.last_s - self.first_s) / later if self.first_s is not None and later > 0 else 0.0

    def move(self, device: int) -> None:
        """Continue on another device, which must recompute the lost KV cache."""
        self.device = device
        # A device that is lost and comes back counts its states from the first on, and is sent it again.
        self.sent_to = None
        self.kv_lost = True

    def take(self, tokens: list[int], at_s: float) -> float | None:
        """Record released tokens; return the seconds since the release before, None for the first.

        A device that replaces a lost one may report an instant before the last.
        """
        at_s = max(at_s, self.last_s)
        gap = None if self.first_s is None else at_s - self.last_s
        if self.first_s is None:
            self.first_s = at_s
        self.last_s = at_s
        self.kv_lost = False
        self.tokens.extend(tokens)
        return gap


class TokenNews(NamedTuple):
    """The tokens that requests have got of one release of a device, counted; `recorded` are those of recorded answers.

    `gaps_s` counts the outputs by emulated seconds since the one before of the same request, and `first` has the
    requests for which there was none. What comes at once is one output, as in vLLM. `overdue`: all of it is of steps
    that have been told of before.
    """

    device: int
    tokens: int
    recorded: int
    gaps_s: dict[float, int]
    first: list[Flight]
    overdue: bool = False


def take(device: int, news: list[tuple[Flight, Chunk]], at_s: float, overdue: bool = False) -> TokenNews:
    """Record tokens that a device has released to flights, with a step or `overdue`. What tells of a failure alone is
    no output."""
    tokens = recorded = 0
    gaps_s, first = dict[float, int](), list[Flight]()
    for flight, chunk in news:
        if not chunk.tokens:
            continue
        gap_s, count = flight.take(chunk.tokens, at_s), len(chunk.tokens)
        tokens += count
        if flight.recorded is not None:
            recorded += count
        if gap_s is None:
            first.append(flight)
        elif gap_s:
            gaps_s[gap_s] = gaps_s.get(gap_s, 0) + 1
    return TokenNews(device, tokens, recorded, gaps_s, first, overdue)


def mark(flights: dict[str, Flight], release: Release) -> None:
    """Record which requests have begun with a release, and what was cached of each, and which were preempted for it."""
    for id, found in zip(release.started, release.found, strict=True):
        if (flight := flights.get(id)) and flight.started_s is None:
            flight.started_s, flight.cached = release.start_s, found
    for id in release.preempted:
        if flight := flights.get(id):
            flight.preemptions += 1


def unseen(flights: dict[str, Flight], chunks: list[Chunk]) -> list[tuple[Flight, Chunk]]:
    """Return the chunks with tokens that clients lack, each with its flight: a device that came back may resend others.

    Several chunks may be of one request, in order: tokens that were overdue.
    """
    news: list[tuple[Flight, Chunk]] = []
    expected: dict[str, int] = {}
    for chunk in chunks:
        flight = flights.get(chunk.request_id)
        if flight and (chunk.failed or chunk.first == expected.get(chunk.request_id, len(flight.tokens))):
            expected[chunk.request_id] = chunk.first + len(chunk.tokens)
            news.append((flight, chunk if chunk.first or not flight.shareable else _with_cached(flight, chunk)))
    return news


def gapped(flights: dict[str, Flight], chunks: list[Chunk]) -> list[Flight]:
    """Return the flights that lack tokens from before these chunks, each request's in order: what had them was lost."""
    begins: dict[str, int] = {}
    for chunk in chunks:
        if chunk.request_id in flights and not chunk.failed:
            begins.setdefault(chunk.request_id, chunk.first)
    return [flights[id] for id, first in begins.items() if first > len(flights[id].tokens)]


def _with_cached(flight: Flight, chunk: Chunk) -> Chunk:
    """Return a first chunk that tells what the prefix cache had of its prompt, and has since."""
    created = max(0, flight.shareable - flight.cached)
    return msgspec.structs.replace(chunk, cached=flight.cached, created=created)

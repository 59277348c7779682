"""A request as the edge keeps it, from its arrival until its client has all of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from serving.call import Call
from serving.types import NEVER, Chunk, Request


@dataclass(slots=True)
class Flight:
    """What is known of a request in flight; enough to begin it again on another instance of any actor.

    `core_request` is vLLM's own (`EngineCoreRequest`), handed to the token source as it is; `slo` names the class of
    the request, or is ""; `n` is how many sequences its client asked for at once. `opened` tells that a device has had
    a buffer for its tokens, `place` where it was sent last: the device, and the state of its link then. `call` is the
    one that brought it, `classified_s` from when until when its topic was asked for, `recorded` its whole answer
    where that was recorded before and vLLM makes none, and `finish` why it ended, once it has. `sink` gets vLLM's
    outputs, if the request came from a front end in another process. Instants are emulated.
    """

    core_request: object
    request: Request
    device: int
    slo: str = ""
    n: int = 1
    tokens: list[int] = field(default_factory=list)
    started_s: float | None = None
    first_s: float | None = None
    last_s: float = 0.0
    opened: bool = False
    place: tuple[int, int] | None = None
    kv_lost: bool = False
    call: Call | None = None
    classified_s: tuple[float, float] | None = None
    recorded: list[Chunk] | None = None
    finish: str = ""
    sink: Callable[[list[Any]], None] | None = None

    @property
    def resumed(self) -> Request:
        """The request as a scheduler that has never seen it must take it: with what its client has already."""
        return msgspec.structs.replace(self.request, released=len(self.tokens), kv_lost=self.kv_lost)

    @property
    def ttft_s(self) -> float:
        """Time to the first token, endless if there is none."""
        return NEVER if self.first_s is None else self.first_s - self.request.arrival_s

    @property
    def tpot_s(self) -> float:
        """Time per output token after the first; 0 if there is none."""
        later = len(self.tokens) - 1
        return (self.last_s - self.first_s) / later if self.first_s is not None and later > 0 else 0.0

    def move(self, device: int) -> None:
        """Go on with another device, which must compute again what the last one held."""
        self.device = device
        self.kv_lost = True

    def take(self, tokens: list[int], at_s: float) -> float | None:
        """Take note of a release; the time since the one before it, None for the first.

        A device that takes over from one that is lost may give an instant that was before its last one."""
        at_s = max(at_s, self.last_s)
        gap = None if self.first_s is None else at_s - self.last_s
        if self.first_s is None:
            self.first_s = at_s
        self.last_s = at_s
        self.kv_lost = False
        self.tokens.extend(tokens)
        return gap


def unseen(flights: dict[str, Flight], chunks: list[Chunk]) -> list[tuple[Flight, Chunk]]:
    """The chunks that clients have not seen: a device that came back may send again what they have.

    There may be several of one request, after one another: tokens that were overdue.
    """
    news: list[tuple[Flight, Chunk]] = []
    expected: dict[str, int] = {}
    for chunk in chunks:
        flight = flights.get(chunk.request_id)
        if flight and (chunk.failed or chunk.first == expected.get(chunk.request_id, len(flight.tokens))):
            expected[chunk.request_id] = chunk.first + len(chunk.tokens)
            news.append((flight, chunk))
    return news

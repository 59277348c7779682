"""The call that the current task serves, stamped once at the edge, before anything else is done with it."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from serving.admission_request import AdmissionRequest
from serving.clock import WallClock


class Wire(Protocol):
    """Writes parts of a response's body to its connection, past the application."""

    def writer(self, head: str, tail: str) -> Callable[[str], bool]: ...


class Prefix(Protocol):
    """Tokens whose blocks others may share, and which may go on."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a `Request` that tell of its blocks."""

    def extended(self, tokens: Sequence[int]) -> "Prefix":
        """Return it with tokens more; what is hashed already is not hashed again."""


Headers = Iterable[tuple[str | bytes, str | bytes]]

TEXT_ROUTES = {
    "/v1/chat/completions": True,
    "/v1/chat/completions/batch": True,
    "/v1/completions": True,
    "/invocations": True,
    "/v1/responses": False,
    "/v1/messages": False,
    "/inference/v1/generate": False,
}
"""HTTP's paths that ask for text, and whether vLLM's types for their bodies keep our fields."""
TEXT_METHODS = ("Completion", "/Generate")
"""How gRPC's methods end that ask for text."""


def asks_for_text(route: str) -> bool:
    """Tell whether a call of this path, or gRPC method, asks for text to be generated."""
    return route in TEXT_ROUTES or route.endswith(TEXT_METHODS)


@dataclass(slots=True)
class Choices:
    """The `n` sequences that a client asked for in one request. Of those that have `ended` the longest had `longest`
    tokens. `prefix` is their prompt, from which their answers go on, once its blocks are known."""

    n: int = 1
    ended: int = 0
    longest: int = 0
    prefix: Prefix | None = None

    def end(self, tokens: int) -> bool:
        """Take note that one has ended, with so many tokens; tell whether it was the last."""
        self.ended += 1
        self.longest = max(self.longest, tokens)
        return self.ended == self.n


@dataclass(slots=True)
class Call:
    """An HTTP request or a gRPC call: what it brings, and what its answer must carry.

    `headers` are HTTP's, or gRPC's metadata, with names in lower case. `body` holds our own fields of the request's
    body. `answer` are headers for the response, `counted` the tokens that rate limits charged, and `admitted` its
    requests that are admitted, by vLLM's id, as `choices` are the sequences of those that have begun, and
    `internal_ids` what vLLM calls these inside: other calls' may have the same ids, which clients choose. `at_end`
    is called when the task that serves the call ends. `route` is the path, or the full gRPC method; `status` the
    answer's status as HTTP (a number) or gRPC (a name) says it, where we have seen it: of gRPC only failures.
    `refusal` is the reason of a refusal, if there was one; it is `answered` once the task has ended that serves it,
    though text may still be made for it, in the background. `wire` writes to the connection past the application,
    where that is possible. `rounds` are the first ones of its beam searches. `judging` are judgements of its
    requests, by the same ids, that come from another process: nothing is answered before they are there. `recorded`
    tells whether the text was recorded before (None: undecided), `needs_model` that it can't be; so it is until the
    request's fields have been read, as `prompts` are one. Of its streams, if vLLM makes their text, `coming` have not
    begun. Devices could see its arrival from `posted_s` on (None: from when their schedulers had its requests).
    `number` is its name in an engine core of another process, until that has been told of its end (0: it has none
    there).
    """

    arrival_s: float
    headers: Headers = ()
    body: Mapping[str, Any] = field(default_factory=dict)
    answer: dict[str, str] = field(default_factory=dict)
    retry_after_s: float | None = None
    route: str = ""
    status: str = ""
    refusal: Exception | None = None
    answered: bool = False
    wire: "Wire | None" = None
    recorded: bool | None = None
    needs_model: bool = True
    prompts: int = 1
    coming: int = 0
    judging: dict[str, "asyncio.Future[None]"] = field(default_factory=dict)
    counted: int = 0
    number: int = 0
    posted_s: float | None = None
    admitted: dict[str, AdmissionRequest] = field(default_factory=dict)
    choices: dict[str, Choices] = field(default_factory=dict)
    internal_ids: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, str] = field(default_factory=dict)
    at_end: list[Callable[[], None]] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether it asked for text, and was answered with an error: HTTP's number, or gRPC's name, says so."""
        return self.status[:1] > "3" and asks_for_text(self.route)

    def header(self, wanted: str) -> str:
        """Return the value of a header; "" if there is none."""
        return next((text(value) for name, value in self.headers if text(name) == wanted), "")

    def is_later_round(self, id: str) -> bool:
        """Tell whether a request goes on with a beam search of which there was a round before. vLLM makes each round's
        beams requests of their own, named SEARCH-ROUND-beam-NUMBER."""
        name, beam, _ = id.rpartition("-beam-")
        search, _, round = name.rpartition("-")
        return bool(beam) and self.rounds.setdefault(search, round) != round

    async def judged(self) -> None:
        """Wait for the judgements of its requests. Raise the refusal of one that is refused."""
        for judgement in list(self.judging.values()):
            await asyncio.shield(judgement)

    def when_ended(self, do: Callable[[], None]) -> None:
        """Call `do` when the task that serves the call ends; now, if it has."""
        if self.answered:
            do()
        else:
            self.at_end.append(do)

    def end(self, _task: object) -> None:
        """End the call: it has been answered, or broken off."""
        self.answered = True
        while self.at_end:
            self.at_end.pop()()


_call: ContextVar[Call | None] = ContextVar("call", default=None)


def stamp(clock: WallClock, headers: Headers = (), route: str = "") -> Call:
    """Make a call that arrives now the current task's; return it."""
    call = Call(clock.now(), headers, route=route)
    _call.set(call)
    if task := asyncio.current_task():
        task.add_done_callback(call.end)
    return call


def use(call: Call | None) -> None:
    """Make a call the current task's."""
    _call.set(call)


def current_call() -> Call | None:
    """Return the current task's call; None where the entry point stamps none."""
    return _call.get()


def arrival_s(clock: WallClock, id: str) -> float:
    """Return the emulated instant at which a request arrived: with the current call, unless it goes on with a beam
    search of the call's; now, where there is no call."""
    call = _call.get()
    return clock.now() if call is None or call.is_later_round(id) else call.arrival_s


def choices_of(id: str, n: int) -> Choices:
    """Return what sequences of one request share, of the current call's request `id`, that is for `n` of them."""
    call = _call.get()
    return Choices(n) if n == 1 or call is None else call.choices.setdefault(id, Choices(n))


def text(raw: str | bytes) -> str:
    """Decode a header's name or value: HTTP has bytes, gRPC both."""
    return raw if isinstance(raw, str) else raw.decode("latin-1")

"""The call that the current task serves: stamped once, at the edge, before anything is done with it."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from serving.clock import WallClock


class Wire(Protocol):
    """Writes parts of a response's body past the application."""

    def writer(self, head: str, tail: str) -> Callable[[str], bool]: ...


Headers = Iterable[tuple[str | bytes, str | bytes]]


@dataclass(slots=True)
class Call:
    """An HTTP request or a gRPC call: what it brings, and what its answer is to say in headers of its own.

    `headers` are those of HTTP, or gRPC's metadata, with names in lower case. `body` has what wishes it says in fields
    of its own. `answer` are headers of its response, `counted` are the tokens that limits have charged it for, and
    `admitted` is what was taken on for it, by vLLM's request id. `at_end` is called when the task that serves it ends.
    `route` is the path, or the gRPC method in full, that was called; `status` is how it was answered, as HTTP (a
    number) or gRPC (a name) says it, where we have seen it: of gRPC only what is no success. `refusal` says why it was
    turned away, if it was. `wire` writes to its connection past the application, where that can be.
    `recorded` tells whether its text was made before (None: that is to be decided), and `needs_model` that it
    can't be: so it is, until its words have been read.
    """

    arrival_s: float
    headers: Headers = ()
    body: Mapping[str, Any] = field(default_factory=dict)
    answer: dict[str, str] = field(default_factory=dict)
    retry_after_s: float | None = None
    route: str = ""
    status: str = ""
    refusal: Exception | None = None
    wire: "Wire | None" = None
    recorded: bool | None = None
    needs_model: bool = True
    counted: int = 0
    admitted: dict[str, Any] = field(default_factory=dict)
    at_end: list[Callable[[], None]] = field(default_factory=list)

    def header(self, wanted: str) -> str:
        """The value of a header; empty if there is none."""
        return next((text(value) for name, value in self.headers if text(name) == wanted), "")

    def end(self, _task: object) -> None:
        """It has been answered, or broken off."""
        while self.at_end:
            self.at_end.pop()()


_call: ContextVar[Call | None] = ContextVar("call", default=None)


def stamp(clock: WallClock, headers: Headers = (), route: str = "") -> Call:
    """A call has come in, to the current task."""
    call = Call(clock.now(), headers, route=route)
    _call.set(call)
    if task := asyncio.current_task():
        task.add_done_callback(call.end)
    return call


def current_call() -> Call | None:
    """The call that the current task serves; None for a way in that does not stamp."""
    return _call.get()


def arrival_s(clock: WallClock) -> float:
    """The emulated instant at which it came; now, for a way in that does not stamp."""
    call = _call.get()
    return clock.now() if call is None else call.arrival_s


def text(raw: str | bytes) -> str:
    """A header's name or value; HTTP has bytes, gRPC has both."""
    return raw if isinstance(raw, str) else raw.decode("latin-1")

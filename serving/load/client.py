"""The client's timing of one request, and the interface of a transport.

All instants are `time.monotonic()` seconds, taken when bytes come off the socket.

An *output* is a chunk that brings tokens: not a chat's role chunk, not a bare `finish_reason`, not `usage`. A chunk
with empty text but no `finish_reason` is an output too: some tokens are not yet printable.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from serving.load.request import LoadRequest
from serving.load.tool_calls import ToolCall, call_of

NO_MESSAGE = "(no message)"
"""Of a failure that the server says nothing of."""


@dataclass(slots=True, eq=False)
class RequestTimes:
    """The instants, token counts and outcome of one request, as the client saw them."""

    scheduled_s: float  # When it was to be sent; every latency counts from here, so a slow client cannot hide a queue.
    lag_s: float = 0.0  # The client's own delay in sending it.
    held_s: float = 0.0  # How long it waited for one of the places in flight, where there are only so many.
    outputs_s: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)  # At each output: the tokens so far by `usage`; 0 if not told.
    end_s: float = 0.0  # The instant of the last chunk that has a choice.
    prompt_tokens: int | None = None  # By the last `usage`; None if the server sent none.
    output_tokens: int | None = None
    status: str | None = None  # Of a failure: HTTP status, gRPC code, or `connection`, `timeout`, `stream`, `client`.
    error: str | None = None
    cancelled: bool = False
    cancelled_s: float = 0.0  # When it was.
    slo: str = ""  # The SLO class that the request named.
    name: str = ""  # The request's name in the workload file, if there is one.
    call_parts: list[dict[str, Any]] | None = None  # Of the call of a tool, as they come; None: none is asked for.

    def see(self, at_s: float, output: bool, usage: tuple[int, int] | None) -> None:
        """Record a chunk with a choice; `usage`: prompt tokens, and output tokens so far, if the chunk has them."""
        self.end_s = at_s
        if output:
            self.outputs_s.append(at_s)
            self.counts.append(usage[1] if usage else 0)
        if usage:
            self.prompt_tokens, self.output_tokens = usage

    def close(self) -> None:
        """End the record: no more chunks come. Without any output, the request has failed."""
        seen = (self.counts[-1] or len(self.outputs_s)) if self.counts else 0
        if self.end_s and self.tokens > seen and (not seen or self.end_s > self.outputs_s[-1]):
            # The chunk with the finish_reason brought no text, but a token all the same.
            self.outputs_s.append(self.end_s)
            self.counts.append(self.tokens)
        if not self.outputs_s:
            self.fail("stream", "the stream ended without any output")

    def fail(self, status: str, error: str) -> None:
        """Record a failure, unless an earlier one is recorded."""
        if self.error is None:
            self.status, self.error = status, error or NO_MESSAGE

    @property
    def call(self) -> ToolCall | None:
        """The call of a tool that the answer was; None if it was none, or is not whole."""
        return call_of(self.call_parts) if self.call_parts else None

    @property
    def completed(self) -> bool:
        """Tell whether the request brought an answer, without error."""
        return self.error is None and not self.cancelled and bool(self.outputs_s)

    @property
    def tokens(self) -> int:
        """Output tokens: the server's count, else the number of outputs."""
        return self.output_tokens if self.output_tokens is not None else len(self.outputs_s)


class Transport(Protocol):
    """A connection to an endpoint; a failed request is recorded in its `RequestTimes`."""

    async def models(self) -> Sequence[str]:
        """Return the names of the models that the endpoint lists. Raise LoadError if it cannot be asked."""
        ...

    async def stream(self, request: LoadRequest, model: str, times: RequestTimes) -> None:
        """Send the request and fill `times` until the stream ends."""
        ...

    async def metrics(self) -> str | None:
        """Return the server's metrics in Prometheus's text format; None if it has none."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...

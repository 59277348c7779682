"""Server-sent events as OpenAI servers write them: one line `data: {...}` an event, `[DONE]` at the end."""

from typing import Any

import msgspec

from serving.load.client import RequestTimes

LONGEST_LINE_BYTES = 16 << 20


class EndlessLine(ValueError):
    """A line that is longer than an event can be; its sentence says so."""


class Delta(msgspec.Struct, gc=False):
    """The delta of a chat chunk."""

    role: Any = None
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None

    @property
    def text(self) -> Any:
        """The first part that is not empty: content, reasoning, or tool calls."""
        return self.content or self.reasoning or self.reasoning_content or self.tool_calls


class Choice(msgspec.Struct, gc=False):
    """The part of a choice that matters for timing."""

    text: Any = None
    delta: Delta | None = None
    finish_reason: Any = None

    @property
    def is_output(self) -> bool:
        """Tell whether the choice brings tokens, as far as its own chunk tells."""
        if self.delta is None:
            return bool(self.text or not self.finish_reason)
        return bool(self.delta.text or not (self.delta.role or self.finish_reason))


class TokenUsage(msgspec.Struct, gc=False):
    """The token counts of a chunk."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class SseEvent(msgspec.Struct, gc=False):
    """One chunk of a stream."""

    choices: list[Choice] | None = None
    usage: TokenUsage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(SseEvent).decode


class EventReader:
    """A parser of a stream, which fills `times`; the pieces may cut lines anywhere."""

    def __init__(self, times: RequestTimes) -> None:
        self.times = times
        self.done = False  # Whether `[DONE]` has come.
        self.finished = False  # Whether a `finish_reason` has.
        self._rest = b""

    def feed(self, at_s: float, piece: bytes) -> None:
        """Parse a piece that came at `at_s`. Raise EndlessLine for a line that doesn't end."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._read(at_s, line[5:].strip())
        if len(self._rest) > LONGEST_LINE_BYTES:
            raise EndlessLine(f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB: {self._rest[:120]!r}")

    def end(self, at_s: float) -> None:
        """End the stream: a last line need not have its newline."""
        self.feed(at_s, b"\n")

    def _read(self, at_s: float, payload: bytes) -> None:
        if payload == b"[DONE]":
            self.done = True
            return
        try:
            event = _decode(payload)
        except (ValueError, RecursionError) as error:  # MsgspecError is one; so is what says that it is no UTF-8
            return self.times.fail("stream", f"not an OpenAI chunk: {payload[:120]!r} ({error})")
        if event.error is not None:
            self.times.fail("stream", message_of(event.error))
        usage = None
        if event.usage is not None and event.usage.completion_tokens is not None:
            usage = event.usage.prompt_tokens or 0, event.usage.completion_tokens
        if event.choices:
            self.finished |= bool(event.choices[0].finish_reason)
            if self.times.call_parts is not None and event.choices[0].delta is not None:
                self.times.call_parts += event.choices[0].delta.tool_calls or ()
            self.times.see(at_s, event.choices[0].is_output, usage)
        elif usage:
            self.times.prompt_tokens, self.times.output_tokens = usage


def message_of(error: Any) -> str:
    """Return the server's message, from any of the shapes that servers give errors, cut to 300 characters; others than
    a terminal shows, which might say anything to it, as escapes."""
    while isinstance(error, dict):
        error = next((error[key] for key in ("error", "message", "detail") if key in error), str(error))
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in str(error)[:300])

"""What a run says while it runs: one live line on a terminal, a line every few seconds elsewhere."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import TextIO

from serving.load.drive import Drive

PLAIN_EVERY_S = 5.0
ERASE = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, in real seconds."""

    elapsed_s: float
    in_flight: int
    done: int
    failed: int
    tokens_per_s: float

    def __str__(self) -> str:
        counts = f"{self.in_flight} in flight, {self.done} done, {self.failed} failed"
        return f"{self.elapsed_s:5.1f} s  {counts}, {self.tokens_per_s:,.0f} tokens/s"


OnProgress = Callable[[Progress], None]


class Meter:
    """Reads a drive's progress; the token rate is since the last reading."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.start_s = self.last_s = monotonic()
        self.last_tokens = 0

    def read(self) -> Progress:
        """Progress now. Outputs stand for the tokens of a request until its end brings the server's count."""
        drive, now_s = self.drive, monotonic()
        tokens = drive.ended_tokens + sum(len(trace.outputs_s) for trace in drive.in_flight)
        rate = (tokens - self.last_tokens) / max(now_s - self.last_s, 1e-6)
        self.last_s, self.last_tokens = now_s, tokens
        return Progress(now_s - self.start_s, len(drive.in_flight), drive.done, drive.failed, max(0.0, rate))


class ProgressLine:
    """Shows progress on stderr, so that stdout is the report's alone."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.said_s = 0.0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.live:
            self._write(ERASE)

    def __call__(self, progress: Progress) -> None:
        """Shows it."""
        if self.live:
            self._write(f"{ERASE}{progress}")
        elif progress.elapsed_s - self.said_s >= PLAIN_EVERY_S:
            self.said_s = progress.elapsed_s
            self._write(f"{progress}\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()

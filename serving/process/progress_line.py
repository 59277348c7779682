"""Progress while something runs: one live line on a terminal, a line every few seconds elsewhere."""

import sys
from types import TracebackType
from typing import Protocol, TextIO

PLAIN_EVERY_S = 5.0
ERASE = "\r\x1b[K"


class Progress(Protocol):
    """A progress after `elapsed_s` real seconds; `str` renders it."""

    @property
    def elapsed_s(self) -> float: ...


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
        """Show the progress."""
        if self.live:
            self._write(f"{ERASE}{progress}")
        elif progress.elapsed_s - self.said_s >= PLAIN_EVERY_S:
            self.said_s = progress.elapsed_s
            self._write(f"{progress}\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()

"""A trace as it is replayed: in order, cut to a window, at another rate, and again from its beginning.

Its time begins with its first row (or with `from_s` after that). Rows that are out of place by fewer than OUT_OF_PLACE
rows are put in order.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from msgspec.structs import replace

from serving.toml_table import AT_LEAST_0, COUNT, FACTOR, LARGEST, AllowedNumber, TomlTable
from serving.workload.table import WorkloadError
from serving.workload.traces.formats import TraceReader, check_time, reader
from serving.workload.traces.rows import TraceRow, bad

OUT_OF_PLACE = 10_000


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace, and how to replay it. `from_s` and `to_s` are in its own seconds; limits are in tokens."""

    source: TraceReader
    rate_scale: float = 1.0
    from_s: float = 0.0
    to_s: float = math.inf
    loop: bool = False
    max_prompt_tokens: int = 0
    max_output_tokens: int = 0

    def timed(self) -> Iterator[tuple[float, int, TraceRow]]:
        """Each row, when it arrives, and in which round. Raise `WorkloadError`."""
        begun_s, round_ = 0.0, 0
        while True:
            last_s, gap_s = -1.0, 0.0
            for place, (at_s, row) in enumerate(self._window()):
                last_s, gap_s = at_s, at_s / max(1, place)
                yield begun_s + at_s / self.rate_scale, round_, row
            if last_s < 0:
                raise self._empty()
            if not self.loop:
                return
            # The next round begins where the window ends, or a usual gap after the last row.
            length_s = self.to_s - self.from_s if math.isfinite(self.to_s) else last_s + (gap_s or 1.0)
            begun_s, round_ = begun_s + length_s / self.rate_scale, round_ + 1

    def untimed(self) -> Iterator[tuple[int, TraceRow]]:
        """Each row as the file has them, and in which round; its times, if it has some, only say what the window is."""
        round_ = 0
        while True:
            row = None
            for row in (row for _, row in self._window()) if self._has_window else self._clipped(self.source.read()):
                yield round_, row
            if row is None:
                raise self._empty()
            if not self.loop:
                return
            round_ += 1

    @property
    def _has_window(self) -> bool:
        return self.from_s > 0 or math.isfinite(self.to_s)

    def _window(self) -> Iterator[tuple[float, TraceRow]]:
        start_s = None
        for row in in_order(self._clipped(self.source.read()), self.source):
            start_s = row.at_s + self.from_s if start_s is None else start_s
            at_s = row.at_s - start_s
            if at_s >= self.to_s - self.from_s:
                return
            if at_s >= 0:
                yield at_s, row

    def _clipped(self, rows: Iterable[TraceRow]) -> Iterator[TraceRow]:
        most_prompt, most_output = self.max_prompt_tokens or math.inf, self.max_output_tokens or math.inf
        if most_prompt == most_output == math.inf:
            yield from rows
            return
        for row in rows:
            turns = [(int(min(prompt, most_prompt)), int(min(output, most_output))) for prompt, output in row.turns]
            yield replace(row, turns=tuple(turns))

    def _empty(self) -> WorkloadError:
        to = f" to {self.to_s:g} s" if math.isfinite(self.to_s) else " s on"
        window = f" from {self.from_s:g}{to}" if self._has_window else ""
        return WorkloadError(f"The trace {self.source.path} ({self.source.format}) has no requests{window}.")


def trace(table: TomlTable) -> Trace:
    """Parse a table `trace`."""
    from_s = table.number("from_s", AT_LEAST_0, 0.0)
    later = AllowedNumber(f"a number above `from_s`, {from_s:g}", lambda value: from_s < value <= LARGEST)
    found = Trace(
        reader(table),
        table.number("rate_scale", FACTOR, 1.0),
        from_s,
        table.number("to_s", later, math.inf),
        table.flag("loop", False),
        table.whole("max_prompt_tokens", COUNT, 0),
        table.whole("max_output_tokens", COUNT, 0),
    )
    table.end()
    return found


def in_order(rows: Iterable[TraceRow], source: TraceReader) -> Iterator[TraceRow]:
    """Yield the rows by time, as long as none is out of place by more than OUT_OF_PLACE. Raise `WorkloadError` for one
    that is wrong: before any is yielded, if it is read by then, otherwise after those that the file has before it."""
    held: list[tuple[float, int, TraceRow]] = []
    last_s, wrong = -math.inf, None
    try:
        for row in rows:
            if row.at_s < last_s:
                sentence = f"this row is earlier than one {OUT_OF_PLACE:,} rows before it: sort the trace by time."
                raise bad(source.path, row.line, sentence)
            check_time(source, row)
            heappush(held, (row.at_s, row.line, row))
            if len(held) > OUT_OF_PLACE:
                last_s, _, first = heappop(held)
                yield first
    except WorkloadError as error:
        if last_s == -math.inf:
            raise
        wrong = error
    while held:
        yield heappop(held)[2]
    if wrong is not None:
        raise wrong

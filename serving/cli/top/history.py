"""The history of an emulation in a terminal: a line of blocks for each figure, over the last hour at most."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from serving.telemetry.history_series import series_of
from serving.telemetry.status_history import EVERY_S, StatusPoint

HEIGHTS = "▁▂▃▄▅▆▇█"
NAME, LAST = 13, 16
LEAST = 8
"""Characters for the line of blocks, below which there is none."""


class Shown(NamedTuple):
    """A figure that is shown: its name, and how its last value and its highest are written."""

    name: str
    values: Sequence[float | None]
    written: Callable[[float], str]


class HistoryView(NamedTuple):
    """Lines of blocks, the newest values on the right; each is as high as its highest value."""

    points: Sequence[StatusPoint]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - NAME - LAST - 2
        if len(self.points) < 2 or width < LEAST:
            return
        found = series_of(self.points)
        spans_s = EVERY_S * (len(self.points) - 1)
        yield Text(f" last {_span(spans_s)}, up to the highest value of each", style="dim")
        for each in (
            Shown("tokens/s", found.tokens_per_s, "{:,.0f}".format),
            Shown("J/token", found.j_per_token, "{:.3f}".format),
            Shown("power, W", found.power_w, "{:,.1f}".format),
            Shown("running", found.running, "{:,.0f}".format),
            Shown("waiting", found.waiting, "{:,.0f}".format),
            Shown("TTFT p99", found.ttft_p99_s, _ms),
            Shown("TPOT p99", found.tpot_p99_s, _ms),
            Shown("late (host)", found.late_p99_s, _ms),
        ):
            yield _line(each, width)


def _line(shown: Shown, width: int) -> Text:
    known = [value for value in shown.values if value is not None]
    most = max(known, default=0.0)
    last = next((value for value in reversed(shown.values) if value is not None), None)
    line = Text(f" {shown.name}".ljust(NAME), style="dim")
    line.append(blocks(shown.values, width, most), style="cyan")
    line.append(f" {'-' if last is None else shown.written(last)}".ljust(9), style="bold")
    line.append(f" {shown.written(most)}" if known else "", style="dim")
    return line


def blocks(values: Sequence[float | None], width: int, most: float) -> str:
    """Return values as `width` blocks at most, each the mean of those it stands for, `most` the highest."""
    count = min(width, len(values))
    line = ""
    for place in range(count):
        part = values[place * len(values) // count : (place + 1) * len(values) // count]
        known = [value for value in part if value is not None]
        share = sum(known) / len(known) / most if known and most > 0 else 0.0
        line += HEIGHTS[min(len(HEIGHTS) - 1, round(share * (len(HEIGHTS) - 1)))] if known else " "
    return line.rjust(width)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.3g} ms" if seconds < 0.1 else f"{1000 * seconds:,.0f} ms"


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"

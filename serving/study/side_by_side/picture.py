"""The picture of a comparison of hardware: latencies, throughput, and joules by component."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from serving.presentation.picture import DIM, panels, write_png
from serving.study.report.combinations import LOOKS
from serving.study.report.svg import by_factors, percent, wide
from serving.study.report.units import scale
from serving.study.side_by_side.comparison import IDLE, PARTS, HardwareFigures

NAME = "comparison"
LATENCIES = {"ttft": "Time to first token", "tpot": "Time per output token"}
BAR = 0.55
COLOURS = {part: look.colour for part, look in zip(PARTS, LOOKS, strict=True)} | {IDLE: "#c9ced6"}
INK = LOOKS[0].colour
MARKS: dict[str, Any] = {
    "p50": {"marker": "o", "color": INK},
    "p99": {"marker": "|", "color": INK, "markersize": 13, "markeredgewidth": 1.6},
    "mean": {"marker": "D", "color": LOOKS[1].colour, "markersize": 4.5},
}


def write_picture(found: Sequence[HardwareFigures], title: str, folder: Path) -> list[Path]:
    """Draw the comparison as `comparison.png` in `folder`; return its path. Raise OSError."""
    return write_png({NAME: partial(_drawn, found, title)}, folder)


def _drawn(found: Sequence[HardwareFigures], title: str) -> Figure:
    figure, ((ttft, tpot, throughput), (joules, shares, key)) = panels((14, 2 + 0.9 * len(found)), 2, 3, sharey=True)
    for panel, (name, what) in zip((ttft, tpot), LATENCIES.items(), strict=True):
        _latencies(panel, found, name, what)
    _throughput(throughput, found)
    _joules(joules, found)
    _shares(shares, found)
    _key(key, found)
    ttft.set_yticks(range(len(found)), [each.hardware for each in found])
    ttft.set_ylim(len(found) - 0.5, -0.5)
    for panel in figure.axes:
        panel.grid(axis="y", visible=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _latencies(panel: Axes, found: Sequence[HardwareFigures], name: str, what: str) -> None:
    """From the median to the 99th percentile, and the mean."""
    all_s = [each[f"{name}_{which}_s"] for each in found for which in ("mean", "p50", "p99")]
    of = scale(f"{name}_s", all_s)
    for place, each in enumerate(found):
        middle, last, mean = (each[f"{name}_{which}_s"] * of.factor for which in ("p50", "p99", "mean"))
        panel.plot([middle, last], [place, place], color=INK, linewidth=1.6, zorder=2)
        for value, (_, look) in zip((middle, last, mean), MARKS.items(), strict=True):
            panel.plot(value, place, linestyle="", zorder=3, **look)
    if wide(all_s):
        by_factors(panel, "x", all_s)
    else:
        panel.set_xlim(left=0)
    panel.set(title=f"{what}, {of.unit}")


def _throughput(panel: Axes, found: Sequence[HardwareFigures]) -> None:
    values = [each["tokens_per_s"] for each in found]
    panel.barh(range(len(found)), values, BAR, color=INK)
    _label(panel, values, [f"{value:,.0f}" for value in values])
    panel.set(title="Output tokens per second of the span")


def _joules(panel: Axes, found: Sequence[HardwareFigures]) -> None:
    """Joules per token, stacked by component."""
    of = scale("j_per_token", [each["j_per_token"] for each in found])
    _stack(panel, [[joules * of.factor for joules in each.part_j] for each in found])
    _label(
        panel, [each["j_per_token"] * of.factor for each in found], [of.number(each["j_per_token"]) for each in found]
    )
    panel.set(title=f"Energy, {of.unit}")


def _shares(panel: Axes, found: Sequence[HardwareFigures]) -> None:
    """Draw the energies as shares of each one's own sum, also where others take many times as much."""
    _stack(panel, [[joules / (sum(each.part_j) or 1.0) for joules in each.part_j] for each in found])
    percent(panel.xaxis)
    panel.set(title="Of it, by component", xlim=(0, 1))


def _stack(panel: Axes, lengths: Sequence[Sequence[float]]) -> None:
    """Bars of `lengths` [hardware, parts], one after the other."""
    starts = [0.0] * len(lengths)
    for index, part in enumerate(PARTS):
        more = [each[index] for each in lengths]
        panel.barh(range(len(lengths)), more, BAR, left=starts, color=COLOURS[part])
        starts = [start + length for start, length in zip(starts, more, strict=True)]


def _key(panel: Axes, found: Sequence[HardwareFigures]) -> None:
    """Draw what marks and colours are, in a panel of its own."""
    panel.set_axis_off()
    marks: list[Any] = [Line2D([], [], linestyle="", label=name, **look) for name, look in MARKS.items()]
    parts = [Patch(color=COLOURS[part], label=_named(part, found)) for part in PARTS]
    panel.legend(handles=[*marks, *parts], loc="center left", fontsize=9, ncols=2, title="Latencies and energy")


def _named(part: str, found: Sequence[HardwareFigures]) -> str:
    """Return a component, or what tiers are called where there are any."""
    names = {"fast": [each.tiers.fast for each in found], "slow": [each.tiers.slow for each in found]}.get(part)
    return ", ".join(dict.fromkeys(names)) if names else part


def _label(panel: Axes, values: Sequence[float], texts: Sequence[str]) -> None:
    """Write each bar's figure at its end."""
    for place, (value, text) in enumerate(zip(values, texts, strict=True)):
        panel.annotate(text, (value, place), (4, 0), textcoords="offset points", va="center", fontsize=8, color=DIM)
    panel.set_xlim(0, max(values, default=1.0) * 1.12 or 1.0)

"""The picture of capacities: a bar for each combination, as long as the load that it holds."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from serving.presentation.picture import DIM, INK
from serving.study.axes import LOAD
from serving.study.questions.capacity import REFUSED, USERS, held_figure, is_beyond, is_short
from serving.study.report.markup import Picture
from serving.study.report.svg import drawn
from serving.study.report.units import scale, setting
from serving.study.summary import LEAST, MOST, Row, is_figure

TITLE = "The load that each combination holds"
BLUE = "#0072b2"
MOST_BARS = 40


def bars_picture(held: list[Row]) -> Picture:
    """Draw the answers that hold any load."""
    rows = held[:MOST_BARS]
    ranges = " Whiskers: the least and the most that one seed has alone." if any(map(_ends, rows)) else ""
    hatched = " Hatched: not all of it was found, and it is at least so much." if not all(map(_is_found, rows)) else ""
    left = f" The first {len(rows)} of {len(held)}." if len(held) > len(rows) else ""
    what = "users it serves at once" if USERS in rows[0] else "requests a second it serves"
    caption = f"The longer the bar, the more {what} as promised.{ranges}{hatched}{left}"
    return Picture(
        "capacity", TITLE, caption, drawn("capacity", TITLE, 0.55 + 0.24 * len(rows), lambda c: _draw(c, rows))
    )


def _draw(canvas: Figure, rows: list[Row]) -> None:
    panel = canvas.subplots()
    figure = held_figure(rows[0])
    of = scale(figure, [row[figure] for row in rows])
    unit, at = of.unit or USERS, range(len(rows))
    colours = [BLUE if _is_found(row) else "white" for row in rows]
    bars = panel.barh(at, [row[figure] for row in rows], 0.62, color=colours, edgecolor=BLUE)
    for bar, row in zip(bars, rows, strict=True):
        bar.set_hatch("" if _is_found(row) else "////")
    for index, row in enumerate(rows):
        ends = _ends(row)
        if ends:
            panel.plot(ends, (index, index), color=INK, linewidth=0.9, marker="|", markersize=6)
        words = f"{of.number(row[figure])} {unit}"
        words = f"{words}, then {_then(row['limit'])}" if _is_found(row) else f"at least {words} ({row['limit']})"
        panel.annotate(words, (max((row[figure], *ends)), index), (5, 0), textcoords="offset points", va="center")
    names = [name for name in rows[0] if not (is_figure(name) or name in (LOAD, USERS, "limit", "error"))]
    panel.set_yticks(list(at), [", ".join(setting(name, row[name]) for name in names) for row in rows])
    panel.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, max(row[figure] for row in rows) * 1.45), xlabel=unit)
    _bare(panel)


def _bare(panel: Axes) -> None:
    panel.grid(False, axis="y")
    panel.tick_params(axis="y", length=0)
    panel.spines["left"].set_color(DIM)


def _ends(row: Row) -> tuple[float, ...]:
    """Return the least and the most that one seed has alone; nothing of a single seed."""
    name = held_figure(row)
    return tuple(row[f"{name}{end}"] for end in (LEAST, MOST) if f"{name}{end}" in row)


def _is_found(row: Row) -> bool:
    """Tell whether more load was tried that does not hold."""
    return not (is_short(row) or is_beyond(row))


def _then(limit: str) -> str:
    """Return what happens beyond a load that was found, in words."""
    what, comma, more = limit.partition(",")
    return f"{'requests are turned away' if what == REFUSED else f'{what} is missed'}{comma}{more}"

"""Latency against energy: which points no other beats in both."""

from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from serving.presentation.picture import INK
from serving.study.report.answers import AnswerView
from serving.study.report.combinations import PLAIN, Combination, LoadPoint
from serving.study.report.markup import Picture, points_table
from serving.study.report.svg import by_factors, drawn, legend, wide
from serving.study.report.units import Scale, scale
from serving.study.store import caveats_of

TITLE = "Latency against energy"
X, Y = "j_per_token", "tpot_p99_s"
FIGURES = (X, Y, "ttft_p99_s", "e2e_p99_s", "attainment", "goodput_per_s")
MOST_NUMBERED = 12
# A share that a table shows as more than 0.0 %.
LEAST_SHOWN = 0.0005
# Pixels, of which an inch has a hundred.
NEAR, LETTER = 14, 8


class PlotPlace(NamedTuple):
    """A point of the picture."""

    combination: Combination
    at: LoadPoint
    x: float
    y: float


def pareto_picture(view: AnswerView) -> Picture | None:
    """Draw the Pareto front; None if there are fewer than two points."""
    places = [PlotPlace(each, at, at[X], at[Y]) for each in [*view.others, *view.shown] for at in each.ats]
    places = [each for each in places if each.x > 0 and each.y > 0]
    # Where nobody is served in time, no latency and no energy is worth anything.
    front = front_of([each for each in places if each.at["attainment"] >= LEAST_SHOWN])
    if len(places) < 2 or not front:
        return None
    svg = drawn("pareto", TITLE, 2.8 + 0.13 * len(view.shown), lambda canvas: _draw(canvas, view, places, front))
    seeds = " Means over seeds." if len(view.study.seeds) > 1 else ""
    caption = (
        f"Further left costs less energy, further down is faster; nothing lies both left of and below a point of the "
        f"numbered front. Filled: {view.promise}; hollow: not.{seeds}"
    )
    rows = [
        {"": index, "combination": each.combination.label}
        | dict(each.at.load)
        | {name: each.at[name] for name in FIGURES}
        | {"caveats": caveats_of(each.at.findings)}
        for index, each in enumerate(front[:MOST_NUMBERED], 1)
    ]
    below = points_table(rows, [*dict.fromkeys(name for row in rows for name in row)])
    return Picture("pareto", TITLE, caption, svg, below)


def front_of(places: list[PlotPlace]) -> list[PlotPlace]:
    """Return the places that no other beats in both, by rising energy."""
    front: list[PlotPlace] = []
    for each in sorted(places, key=lambda place: (place.x, place.y)):
        if not front or each.y < front[-1].y:
            front.append(each)
    return front


def _draw(canvas: Figure, view: AnswerView, places: list[PlotPlace], front: list[PlotPlace]) -> None:
    panel = canvas.subplots()
    of_x, of_y = (scale(name, [each.at[name] for each in places]) for name in (X, Y))
    line = [(each.x * of_x.factor, each.y * of_y.factor) for each in front]
    panel.plot(*zip(*line, strict=True), color=INK, linewidth=0.8, drawstyle="steps-post", zorder=2)
    for each in places:
        colour, marker, _ = each.combination.look
        fill = colour if view.keeps(each.at) else "white"
        size = 16 if each.combination.look is PLAIN else 26
        at = [each.x * of_x.factor], [each.y * of_y.factor]
        panel.scatter(*at, s=size, marker=marker, color=fill, edgecolor=colour, linewidths=0.9, zorder=3)
    _axis(panel, "x", of_x, [each.x for each in places], "energy")
    _axis(panel, "y", of_y, [each.y for each in places], "TPOT, p99")
    panel.margins(0.06, 0.12)
    _number(panel, line[:MOST_NUMBERED])
    others = [Line2D([], [], marker="o", linestyle="", color=PLAIN.colour, label="others")]
    has_others = any(each.combination.look is PLAIN for each in places)
    line_of = Line2D([], [], color=INK, linewidth=0.8, label="front")
    legend(canvas, view.shown, *(others if has_others else []), line_of, lines=False)


def _number(panel: Axes, line: list[tuple[float, float]]) -> None:
    """Write the numbers of the points beside the front, in one text where points lie on each other."""
    panel.autoscale_view()
    pixels = panel.transData.transform(line)
    groups: list[list[int]] = []
    for index in range(len(line)):
        near = groups and abs(pixels[index] - pixels[groups[-1][0]]).max() < NEAR
        groups[-1].append(index) if near else groups.append([index])
    for group in groups:
        text = ", ".join(str(index + 1) for index in group)
        # Beside the axes there is no room: their own numbers are there.
        left, low = pixels[group[0]] - panel.bbox.min < (LETTER * (len(text) + 1), 2 * LETTER)
        across: Any = (5, "left") if left else (-5, "right")
        up: Any = (4, "bottom") if low else (-4, "top")
        offset, looks = (across[0], up[0]), {"ha": across[1], "va": up[1]}
        panel.annotate(text, line[group[0]], offset, textcoords="offset points", zorder=4, **looks)


def _axis(panel: Axes, which: str, of: Scale, values: list[float], label: str) -> None:
    if wide(values):
        by_factors(panel, which, [value * of.factor for value in values])
    panel.set(**{f"{which}label": f"{label}, {of.unit}"})

"""The picture of a comparison: each variant's figures as multiples of the baseline's, at each place."""

from math import inf

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from serving.presentation.picture import DIM
from serving.study.point import VARIANT
from serving.study.questions.compare import figures_of
from serving.study.report.combinations import LOOKS, PlotStyle
from serving.study.report.markup import Picture
from serving.study.report.svg import by_factors, drawn, handle, wide
from serving.study.report.units import less_is_better, setting, words
from serving.study.summary import Row, is_figure

MOST_PLACES = 4
APART = 0.6


def ratios_picture(rows: list[Row], baseline: str, variants: list[str], seeds: bool) -> Picture:
    """Draw the answers' ratios; with several `seeds` each has a least and a most."""
    # By the order of the study, as in the other pictures.
    others = [name for name in variants if name != baseline]
    looks = {name: LOOKS[index] for index, name in enumerate(variants[: len(LOOKS)]) if name != baseline}
    unnamed = f" The first {len(looks)} of {len(others)} variants." if len(others) > len(looks) else ""
    places: dict[str, list[Row]] = {}
    for row in rows:
        if row[VARIANT] in looks:
            places.setdefault(place(settings_of(row)), []).append(row)
    shown = list(places.values())[:MOST_PLACES]
    # What is 0 with the baseline can't be compared.
    figures = [name for name in figures_of(rows) if all(_is_comparable(_ratios(row, name)) for row in rows)]
    title = f"How many times that of {baseline}"
    left = f" The first {len(shown)} of {len(places)} places on the axes." if len(places) > len(shown) else ""
    spans = " A line spans what lies between seeds." if seeds else ""
    caption = (
        f"Right of 1, a figure is larger than that of {baseline}; of those with ↓ less is better, of those with "
        f"↑ more.{spans}{left}{unnamed}"
    )
    height_in = 0.75 + (0.14 + 0.07 * len(looks)) * len(figures) * (-(-len(shown) // 2))
    svg = drawn("ratios", title, height_in, lambda canvas: _draw(canvas, shown, figures, looks))
    return Picture("ratios", title, caption, svg)


def settings_of(row: Row) -> Row:
    """Return an answer's settings, without its figures."""
    return {name: value for name, value in row.items() if not is_figure(name.partition(" ")[0])}


def place(settings: Row) -> str:
    """Return the place of settings on the axes, without the variant."""
    return repr(sorted((name, value) for name, value in settings.items() if name != VARIANT))


def _ratios(row: Row, name: str) -> list[float]:
    """Return a figure's ratio; with several seeds also the least and the most."""
    return [row[key] for end in ("", " least", " most") if (key := f"{name} /base{end}") in row]


def _is_comparable(ratios: list[float]) -> bool:
    return bool(ratios) and all(0 < each < inf for each in ratios)


def _draw(canvas: Figure, places: list[list[Row]], figures: list[str], looks: dict[str, PlotStyle]) -> None:
    columns = min(2, len(places))
    canvas.subplots(-(-len(places) // columns), columns, squeeze=False, sharex=True, sharey=True)
    for panel, rows in zip(canvas.axes, places, strict=False):
        panel.axvline(1, color=DIM, linewidth=0.8)
        where = {name: value for name, value in settings_of(rows[0]).items() if name != VARIANT}
        panel.set_title(", ".join(setting(*each) for each in where.items()))
        for row in rows:
            shift = APART * (list(looks).index(row[VARIANT]) - (len(looks) - 1) / 2) / len(looks)
            _dots(panel, row, figures, looks[row[VARIANT]], shift)
        arrows = ["↓" if less_is_better(name) else "↑" for name in figures]
        labels = [f"{words(name)} {arrow}" for name, arrow in zip(figures, arrows, strict=True)]
        panel.set_yticks(range(len(figures)), labels)
        panel.set_ylim(len(figures) - 0.5, -0.5)
    ratios = [row[f"{name} /base"] for rows in places for row in rows for name in figures]
    if wide(ratios):
        by_factors(canvas.axes[0], "x", ratios)
    for panel in canvas.axes[max(0, len(places) - columns) : len(places)]:
        panel.tick_params(labelbottom=True)
    for panel in canvas.axes[len(places) :]:
        panel.set_visible(False)
    handles = [handle(look._replace(dash="-"), name) for name, look in looks.items()]
    canvas.legend(handles=handles, loc="outside lower left", ncols=4)


def _dots(panel: Axes, row: Row, figures: list[str], look: PlotStyle, shift: float) -> None:
    for index, name in enumerate(figures):
        middle, *ends = _ratios(row, name)
        panel.plot(ends or [middle] * 2, [index + shift] * 2, color=look.colour, linewidth=1.2)
        panel.plot([middle], [index + shift], color=look.colour, marker=look.marker)

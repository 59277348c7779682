"""The picture of a search: its figure over the places in the order in which they were tried, and along each axis."""

from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from serving.presentation.picture import INK
from serving.study.axes import Settings
from serving.study.point import shown
from serving.study.report.markup import Picture
from serving.study.report.svg import drawn
from serving.study.report.units import Scale, scale, short, words

KEPT, BROKEN = "#0072b2", "#d55e00"
MOST_AXES = 6
COLUMNS = 3
MOST_TICKS = 8


class Trial(NamedTuple):
    """A place that was tried, its figure, whether it keeps the constraints, and the best so far that does."""

    settings: Settings
    value: float
    kept: bool
    best: float | None


def trials_picture(name: str, trials: list[Trial], axes: list[str]) -> Picture:
    """Draw a search's trials for the figure `name` over the axes."""
    of, called = scale(name, [trial.value for trial in trials]), words(name)
    title = f"{called[0].upper()}{called[1:]} of the places that were tried"
    label = f"{called}, {of.unit}" if of.unit else called
    shown_axes = axes[:MOST_AXES]
    rows = 1 if len(axes) == 1 else 1 + -(-len(shown_axes) // COLUMNS)
    hollow = " Filled: keeps the constraints; hollow: does not." if not all(trial.kept for trial in trials) else ""
    left = f" {len(axes) - MOST_AXES} more axes are left out." if len(axes) > MOST_AXES else ""
    caption = (
        "Each dot is a place that was tried; above, the line is the best so far; below, where the dots of an axis rise "
        "or fall together, its setting matters."
    )
    if rows == 1:
        caption = "Each dot is a place that was tried."
    svg = drawn("trials", title, 0.5 + 1.7 * rows, lambda canvas: _draw(canvas, trials, shown_axes, of, label))
    return Picture("trials", title, caption + hollow + left, svg)


def _draw(canvas: Figure, trials: list[Trial], axes: list[str], of: Scale, label: str) -> None:
    if len(axes) == 1:
        panel = canvas.subplots()
        _along(panel, axes[0], trials, of)
        panel.set_ylabel(label)
        return
    grid = canvas.add_gridspec(1 + -(-len(axes) // COLUMNS), COLUMNS)
    top = canvas.add_subplot(grid[0, :])
    top.set(xlabel="places, in the order in which they were tried", ylabel=label)
    _over_trials(top, trials, of)
    for index, axis in enumerate(axes):
        panel = canvas.add_subplot(grid[1 + index // COLUMNS, index % COLUMNS], sharey=top)
        _along(panel, axis, trials, of)
        panel.tick_params(labelleft=index % COLUMNS == 0)
        panel.set_ylabel("" if index % COLUMNS else label)


def _over_trials(panel: Axes, trials: list[Trial], of: Scale) -> None:
    steps = [(index, trial.best * of.factor) for index, trial in enumerate(trials, 1) if trial.best is not None]
    if steps:
        x, y = zip(*steps, strict=True)
        panel.plot(x, y, color=INK, linewidth=0.9, drawstyle="steps-post", zorder=1)
    _dots(panel, list(range(1, len(trials) + 1)), trials, of)


def _along(panel: Axes, axis: str, trials: list[Trial], of: Scale) -> None:
    values = [trial.settings[axis] for trial in trials]
    if all(type(value) in (int, float) for value in values):
        _dots(panel, values, trials, of)
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=all(type(value) is int for value in values)))
    else:
        names = sorted({shown(value) for value in values})
        _dots(panel, [names.index(shown(value)) for value in values], trials, of)
        ticks = range(0, len(names), -(-len(names) // MOST_TICKS))
        slanted = sum(len(names[tick]) for tick in ticks) > 26
        panel.set_xticks(list(ticks), [names[tick] for tick in ticks], rotation=30 if slanted else 0)
        panel.set_xlim(-0.5, len(names) - 0.5)
    panel.set_xlabel(short(axis))


def _dots(panel: Axes, x: list[Any], trials: list[Trial], of: Scale) -> None:
    for kept, fill, edge, marker in ((False, "white", BROKEN, "s"), (True, KEPT, KEPT, "o")):
        pairs = [(at, trial.value * of.factor) for at, trial in zip(x, trials, strict=True) if trial.kept is kept]
        if pairs:
            across, up = zip(*pairs, strict=True)
            panel.scatter(across, up, s=14, color=fill, edgecolor=edge, marker=marker, zorder=3)

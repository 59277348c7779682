"""SLO attainment and goodput against the load that is offered: where a combination stops keeping up."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from serving.presentation.picture import DIM
from serving.study.report.answers import AnswerView
from serving.study.report.combinations import PLAIN, Combination
from serving.study.report.markup import Picture
from serving.study.report.svg import drawn, handle, legend, percent
from serving.study.report.units import share

MOST_FAINT = 60
TITLE = "SLO attainment and goodput against load"


def load_picture(view: AnswerView) -> Picture | None:
    """Draw figures over load; None if nothing was tried at several loads."""
    shown = [each for each in view.shown if each.has_loads]
    if not shown:
        return None
    # Told apart by where they lie, not by who they are.
    faint = [each for each in view.others if each.has_loads][:MOST_FAINT]
    svg = drawn("load", TITLE, 2.6 + 0.13 * len(shown), lambda canvas: _draw(canvas, view, shown, faint))
    seeds = "; faint dots are single seeds, lines their means" if len(view.study.seeds) > 1 else ""
    turns = " Where a line turns back, more users asked less often, as they waited." if any(map(_turns, shown)) else ""
    grey = f" Grey, unnamed: {len(faint)} other combinations." if faint else ""
    target = f" above the dotted target ({share(view.share)})" if view.share else " high"
    caption = (
        f"Left, a combination holds the load as far as its line stays{target}; right, as far as it follows the "
        f"diagonal, all are served in time (until the last token, so that a short run lies below){seeds}.{turns}{grey}"
    )
    return Picture("load", TITLE, caption, svg)


def _draw(canvas: Figure, view: AnswerView, shown: list[Combination], faint: list[Combination]) -> None:
    left, right = canvas.subplots(1, 2)
    for panel, name in ((left, "attainment"), (right, "goodput_per_s")):
        for each in faint:
            panel.plot(*_line(each, name), color=PLAIN.colour, linewidth=0.6, zorder=1)
        for each in shown:
            _curve(panel, each, name)
        panel.set(xlabel="offered load, req/s")
        panel.set_xlim(left=0)
    if view.share:
        left.axhline(view.share, color=DIM, linewidth=0.9, linestyle=":", zorder=1)
    left.set(title="requests within both targets")
    _up_to_all(left)
    # What is served over the whole span is always a little less than what arrives until the last arrival.
    most = max(at["offered_per_s"] for each in shown for at in each.ats)
    right.plot([0, most], [0, most], color=DIM, linewidth=0.9, linestyle=":", zorder=1)
    right.set(title="goodput: requests within both targets, per second", ylabel="req/s")
    right.set_ylim(bottom=0)
    others = [handle(PLAIN._replace(marker=""), "others")] if faint else []
    legend(
        canvas,
        shown,
        *others,
        Line2D(
            [],
            [],
            color=DIM,
            linestyle=":",
            linewidth=0.9,
            label=f"{'left: the target; ' if view.share else ''}right: all requests",
        ),
    )


def _up_to_all(panel: Axes) -> None:
    """Have a share axis end with 100 %."""
    low = max(0.0, panel.get_ylim()[0])
    panel.set_yticks([tick for tick in MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, 1) if low <= tick <= 1])
    panel.set_ylim(low - 0.02 * (1 - low), 1 + 0.04 * (1 - low))
    percent(panel.yaxis)


def _curve(panel: Axes, each: Combination, name: str) -> None:
    colour, marker, dash = each.look
    for at in each.ats:
        if len(at.findings) > 1:
            x, y = ([finding.row[of] for finding in at.findings] for of in ("offered_per_s", name))
            panel.scatter(x, y, s=9, marker=marker, color=colour, alpha=0.45, linewidths=0, zorder=2)
    panel.plot(*_line(each, name), color=colour, marker=marker, linestyle=dash, zorder=3)


def _turns(each: Combination) -> bool:
    """Tell whether less is offered at a higher load, as in a closed loop."""
    offered, _ = _line(each, "offered_per_s")
    return offered != sorted(offered)


def _line(each: Combination, name: str) -> tuple[list[float], list[float]]:
    return [at["offered_per_s"] for at in each.ats], [at[name] for at in each.ats]

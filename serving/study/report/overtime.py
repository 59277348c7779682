"""Pictures of the devices over time: modes, batch sizes, and hits of experts."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from serving.presentation.picture import DIM
from serving.study.report.answers import AnswerView, ChosenLoad
from serving.study.report.frames import Columns, bins_of
from serving.study.report.markup import Picture
from serving.study.report.svg import drawn, legend, percent
from serving.study.report.units import listed
from serving.study.study import Finding

# What a device does, from the bottom: column, words, colour, hatch. AR is blue and SD orange wherever they appear.
MODES = (
    ("sd_s", "SD", "#e69f00", "...."),
    ("ar_s", "AR", "#0072b2", ""),
    ("prefill_s", "prefill, alone or with decoding", "#ffffff", "//////"),
    ("idle_s", "idle", "#eef0f3", ""),
    ("lost_s", "lost", "#5b6470", ""),
)
SPENT = ("sd_s", "ar_s", "prefill_s", "lost_s")
MOST = 4
FINE, COARSE = 128, 40
UNITS = ((7200.0, "h", 3600.0), (600.0, "min", 60.0), (0.0, "s", 1.0))


def modes_picture(view: AnswerView, chosen: list[ChosenLoad]) -> Picture | None:
    """Draw how device time was spent; None if nothing was run."""
    chosen = view.few(chosen, MOST)
    if not chosen:
        return None
    of_each = [bins_of(view.results.folder, _run_of(each), FINE) for each in chosen]
    title = "What devices did over time"
    svg = drawn("modes", title, 0.75 + 0.95 * len(chosen), lambda canvas: _draw_modes(canvas, chosen, of_each))
    none = "" if any(bins["sd_s"].any() for bins in of_each) else " There is no SD: no step was speculative."
    caption = f"Of the devices' time, the share that each mode takes.{_whose(view, chosen)}{none}"
    return Picture("modes", title, caption, svg)


def experts_picture(view: AnswerView, chosen: list[ChosenLoad]) -> Picture | None:
    """Draw batch sizes and expert hits (none without experts); None if nothing was run."""
    chosen = view.few(chosen, MOST)
    if not chosen:
        return None
    of_each = [bins_of(view.results.folder, _run_of(each), COARSE) for each in chosen]
    hits = any(bins["expert_lookups"].any() for bins in of_each)
    title = "Expert hit rate and batch over time" if hits else "Batch over time"
    lines = [_Lines("sequences in a step", _batch, False)]
    lines = ([_Lines("expert reads that the fast tier served", _hits, True)] if hits else []) + lines
    height = 0.6 + 1.45 * len(lines) + 0.13 * len(chosen)
    svg = drawn("experts", title, height, lambda canvas: _draw_lines(canvas, chosen, of_each, lines))
    up = "Above, the higher, the fewer experts had to be read from slower memory; below, how" if hits else "How"
    caption = f"{up} many sequences shared a step.{_whose(view, chosen)}"
    return Picture("experts", title, caption, svg)


class _Lines:
    """A panel of lines over time: its label, and how to compute the lines from a run's bins."""

    def __init__(self, label: str, of: Callable[[Columns], Any], share: bool) -> None:
        self.label, self.of, self.share = label, of, share


def _hits(bins: Columns) -> Any:
    return _over(bins["expert_hits"], bins["expert_lookups"])


def _batch(bins: Columns) -> Any:
    return _over(bins["sequence_s"], bins["prefill_s"] + bins["ar_s"] + bins["sd_s"])


def _over(above: Any, below: Any) -> Any:
    """Divide bin by bin; NaN where there was nothing."""
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)


def _run_of(chosen: ChosenLoad) -> Finding:
    """Return the run that is shown: of several seeds' the first in which anything was done."""
    return next(each for each in chosen.at.findings if each.row["steps"])


def _whose(view: AnswerView, chosen: list[ChosenLoad]) -> str:
    """Return in words whose runs are shown."""
    seeds = list(dict.fromkeys(str(_run_of(each).point.seed) for each in chosen))
    told = f"with seed{'s' if len(seeds) > 1 else ''} {listed(seeds)}"
    return view.note(chosen, told if len(view.study.seeds) > 1 else "")


def _draw_modes(canvas: Figure, chosen: list[ChosenLoad], of_each: list[Columns]) -> None:
    panels = canvas.subplots(len(chosen), 1, squeeze=False, sharex=_alike(of_each))[:, 0]
    unit, factor = _unit(of_each)
    for panel, each, bins in zip(panels, chosen, of_each, strict=True):
        spent_s = sum(bins[name] for name in SPENT)
        idle_s = np.maximum(bins["device_s"] - spent_s, 0)
        parts = np.array([(bins | {"idle_s": idle_s})[name] for name, *_ in MODES])
        shares = parts / np.maximum(parts.sum(axis=0), 1e-12)
        _stack(panel, _edges(bins) / factor, shares)
        load = f", {each.at.load_label}" if each.at.load_label else ""
        panel.set_title(each.combination.label + load)
        panel.set(ylim=(0, 1), yticks=(0, 0.5, 1))
        panel.set_xlim(0, _edges(bins)[-1] / factor)
        percent(panel.yaxis)
        panel.grid(False)
    panels[-1].set_xlabel(f"emulated time, {unit}")
    used = [mode for mode in MODES if mode[0] == "idle_s" or any(bins[mode[0]].any() for bins in of_each)]
    looks = [Patch(facecolor=colour, hatch=hatch, edgecolor=DIM, label=label) for _, label, colour, hatch in used]
    canvas.legend(handles=looks, loc="outside lower left", ncols=len(looks))


def _stack(panel: Axes, edges: Any, shares: Any) -> None:
    floor = np.zeros(shares.shape[1])
    for (_, _, colour, hatch), share in zip(MODES, shares, strict=True):
        top = floor + share
        if share.any():
            panel.stairs(
                top, edges, baseline=floor, fill=True, facecolor=colour, edgecolor=DIM, hatch=hatch, linewidth=0
            )
        floor = top


def _draw_lines(canvas: Figure, chosen: list[ChosenLoad], of_each: list[Columns], lines: list[_Lines]) -> None:
    panels = canvas.subplots(len(lines), 1, squeeze=False, sharex=True)[:, 0]
    unit, factor = _unit(of_each)
    for panel, line in zip(panels, lines, strict=True):
        for each, bins in zip(chosen, of_each, strict=True):
            look, edges = each.combination.look, _edges(bins)
            x = (edges[:-1] + edges[1:]) / 2 / factor
            panel.plot(x, line.of(bins), color=look.colour, linestyle=look.dash)
        panel.set_title(line.label)
        if line.share:
            percent(panel.yaxis)
        else:
            panel.set_ylim(bottom=0)
        panel.set_xlim(left=0)
    panels[-1].set_xlabel(f"emulated time, {unit}")
    legend(canvas, [each.combination for each in chosen], markers=False)


def _edges(bins: Columns) -> Any:
    return np.append(bins["start_s"], bins["end_s"])


def _unit(of_each: list[Columns]) -> tuple[str, float]:
    most = max(bins["end_s"] for bins in of_each)
    return next((unit, factor) for least, unit, factor in UNITS if most >= least)


def _alike(of_each: list[Columns]) -> bool:
    """Tell whether all runs took about as long."""
    ends = [bins["end_s"] for bins in of_each]
    return bool(max(ends) < 1.5 * min(ends))

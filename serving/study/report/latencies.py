"""Pictures of the distribution of TTFT and TPOT over requests, beside their targets."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from serving.presentation.picture import DIM
from serving.study.report.answers import AnswerView, ChosenLoad
from serving.study.report.frames import requests_of
from serving.study.report.markup import Picture
from serving.study.report.svg import WIDE, by_factors, drawn, legend, percent
from serving.study.report.units import scale, seconds, share
from serving.types import NEVER

LEVELS = np.concatenate([np.linspace(0, 0.9, 91), np.linspace(0.9, 1, 101)[1:]])
# How much wider a panel may become for its target's sake.
FAR = 2.5
# Of a panel's width, within which words left of a line would lie on the axis.
NEAR_AXIS = 0.06
TITLE = "Distributions of TTFT and TPOT"
NAMES = {"ttft_s": "time to first token (TTFT)", "tpot_s": "time per output token (TPOT)"}


def latencies_picture(view: AnswerView, chosen: list[ChosenLoad]) -> Picture | None:
    """Draw the distributions; None if there are no requests to judge."""
    samples = [_samples(view, each) for each in chosen]
    if not any(len(each["ttft_s"]) for each in samples):
        return None
    svg = drawn("latencies", TITLE, 2.5 + 0.13 * len(chosen), lambda canvas: _draw(canvas, view, chosen, samples))
    targets = view.study.targets
    lines = "what is asked is that of each request's SLO class" if targets.own else "the vertical line is the target"
    seeds = " Requests of all seeds together." if len(view.study.seeds) > 1 else ""
    refused = max(each.at["refused_share"] for each in chosen)
    left = f" Up to {share(round(refused, 3))} were turned away, and are in no line." if refused else ""
    caption = f"How many of the requests (up) have to wait at most so long (right); {lines}.{left}"
    return Picture("latencies", TITLE, caption + view.note(chosen) + seeds, svg)


def _samples(view: AnswerView, chosen: ChosenLoad) -> dict[str, Any]:
    found = requests_of(view.results.folder, chosen.at.findings, ("ttft_s", "tpot_s", "output_tokens"))
    # A single token has no time per output token.
    return {"ttft_s": found["ttft_s"], "tpot_s": found["tpot_s"][found["output_tokens"] > 1]}


def _draw(canvas: Figure, view: AnswerView, chosen: list[ChosenLoad], samples: list[dict[str, Any]]) -> None:
    targets = view.study.targets
    limits = {} if targets.own else {"ttft_s": targets.ttft_s, "tpot_s": targets.tpot_s}
    for panel, name in zip(canvas.subplots(1, 2, sharey=True), NAMES, strict=True):
        _cdf(panel, name, [(each, sample[name]) for each, sample in zip(chosen, samples, strict=True)])
        if limits.get(name, NEVER) != NEVER:
            _limit(panel, limits[name])
        panel.set(title=NAMES[name])
        panel.set_ylim(0, 1.01)
        percent(panel.yaxis)
    legend(canvas, [each.combination for each in chosen], markers=False)


def _cdf(panel: Axes, name: str, samples: list[tuple[ChosenLoad, Any]]) -> None:
    known = [(each, np.quantile(values, LEVELS)) for each, values in samples if len(values)]
    of = scale(name, [float(values[-1]) for _, values in known])
    for each, values in known:
        look = each.combination.look
        panel.plot(values * of.factor, LEVELS, color=look.colour, linestyle=look.dash)
    everything = np.concatenate([values for _, values in known]) * of.factor if known else np.ones(1)
    if np.quantile(everything, 0.99) > WIDE * max(np.quantile(everything, 0.01), 1e-9):
        by_factors(panel, "x", [float(each) for each in everything if each > 0])
    else:
        panel.set_xlim(left=0)
    panel.set_xlabel(of.unit)


def _limit(panel: Axes, limit_s: float) -> None:
    """Draw a line where the target is; where it is far off, a word at the edge that it lies beyond."""
    limit, words = limit_s * (1e3 if panel.get_xlabel() == "ms" else 1.0), f"target {seconds(limit_s)}"
    left, right = panel.get_xlim()
    note: dict[str, Any] = {"textcoords": "offset points", "color": DIM, "ha": "right", "va": "bottom"}
    if limit > FAR * right:
        panel.annotate(f"{words} \u2192", (1, 0.02), (-3, 0), xycoords="axes fraction", **note)
        return
    panel.axvline(limit, color=DIM, linewidth=0.9, linestyle=":")
    panel.set_xlim(left, max(right, limit * 1.05))
    ahead = limit < left + NEAR_AXIS * (panel.get_xlim()[1] - left)
    side = {"ha": "left"} if ahead else {}
    panel.annotate(words, (limit, 0.02), (2 if ahead else -2, 0), rotation=90, **(note | side))

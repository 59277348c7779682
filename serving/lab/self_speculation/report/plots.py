"""The pictures of `foreserve speculate`: the papers' figures, of the model that was measured."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from device_model.speculation import accepted_at
from serving.lab.self_speculation.cases import DEPTH
from serving.lab.self_speculation.drafts.elastic import TREATMENTS
from serving.lab.self_speculation.measure import MeasuredPoint
from serving.lab.self_speculation.record import AcceptanceRecord
from serving.presentation.picture import panels, write_png

SIZE = (7.5, 4.8)
MARKERS = "osD^v"
Of = Callable[[MeasuredPoint], float]


def draw(found: AcceptanceRecord, folder: Path) -> list[Path]:
    """All pictures, as PNG files in `folder`; their paths."""
    return write_png({name: partial(make, found) for name, make in PICTURES.items()}, folder)


def two_axes(found: AcceptanceRecord) -> Figure:
    """ELMoE-3D's Fig. 5(b): acceptance over both axes, and the bytes that the draft holds."""
    points = found.figures["fig5b"]
    figure, [pair] = panels((11.5, 4.8), columns=2)
    _heat(pair[0], points, lambda p: p.alpha, "acceptance rate", "{:.2f}")
    _heat(pair[1], points, lambda p: p.held_bytes / 1e6, "bytes held by the draft (MB)", "{:.2f}")
    figure.suptitle("Both axes of elasticity: experts in the pool and bits of the MSB slice (as ELMoE-3D, Fig. 5b)")
    return figure


def _heat(panel: Axes, points: list[MeasuredPoint], of: Of, title: str, form: str) -> None:
    shares, widths = (sorted({getattr(p.case, name) for p in points}) for name in ("share", "bits"))
    values = np.full((len(shares), len(widths)), np.nan)
    for p in points:
        values[shares.index(p.case.share), widths.index(p.case.bits)] = of(p)
    panel.grid(visible=False)  # whose lines would strike the figures through
    panel.imshow(values, origin="lower", aspect="auto", cmap="viridis")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if value < middle else "black"
        panel.text(column, row, form.format(value), ha="center", va="center", color=colour)
    panel.set_xticks(range(len(widths)), [str(width) for width in widths])
    panel.set_yticks(range(len(shares)), [f"{share:g}" for share in shares])
    panel.set(xlabel="bits of a weight", ylabel="share of the experts in the pool", title=title)


def equal_bytes(found: AcceptanceRecord) -> Figure:
    """Draw acceptance over the bytes held: bits alone, experts alone, both."""
    figure, [pair] = panels((11.5, 4.8), columns=2, sharey=True)
    points, cut = found.figures["fig5b"], found.figures["fig7a"]
    groups = {
        "bits alone": [p for p in points if p.case.share == 1],
        "experts alone": [p for p in points if p.case.bits == 8],
        "both": [p for p in points if p.case.share < 1 and p.case.bits < 8],
    }
    _against_bytes(pair[0], groups, "ELMoE-3D: bits and experts")
    groups = {
        "truncation alone": [p for p in cut if not p.case.pruned],
        "pruning alone": [p for p in cut if not p.case.dropped],
        "both": [p for p in cut if p.case.pruned and p.case.dropped],
    }
    _against_bytes(pair[1], groups, "Cassandra-1: pruning and truncation")
    pair[0].set_ylabel("acceptance rate")
    figure.suptitle("Which way to make a draft smaller")
    return figure


def _against_bytes(panel: Axes, groups: dict[str, list[MeasuredPoint]], title: str) -> None:
    for index, (name, points) in enumerate(groups.items()):
        ordered = sorted(points, key=lambda p: p.held_bytes)
        style = "" if name == "both" else "-"
        _errors(panel, ordered, lambda p: p.held_bytes / 1e6, (name, style, index), "alpha")
    panel.set(xlabel="bytes held by the draft (MB)", title=title, ylim=(0, 1.03))
    panel.legend()


def pool_choice(found: AcceptanceRecord) -> Figure:
    """ELMoE-3D's Fig. 17(a): which experts are in the pool."""
    figure, [[panel]] = panels(SIZE)
    for index, kind in enumerate(("hot", "random")):
        points = found.curve("fig17a", kind=kind)
        _errors(panel, points, lambda p: p.case.share, (f"{kind} pool", "-", index), "accepted")
    panel.set(xlabel="share of the experts in the pool", ylabel="accepted tokens of 5", ylim=(0, None))
    panel.set_title("Which experts: hot or random, 4-bit slices, batch 1 (as Fig. 17a)")
    panel.legend()
    return figure


def pool_batch(found: AcceptanceRecord) -> Figure:
    """ELMoE-3D's Fig. 17(b): sequences that share a pool."""
    figure, [[panel]] = panels((9.5, 4.8))
    groups = sorted({(p.case.kind, p.case.share) for p in found.figures["fig17b"]})
    for index, (kind, share) in enumerate(groups):
        points = found.curve("fig17b", kind=kind, share=share)
        style = "-" if kind == "hot" else "--"
        _errors(panel, points, lambda p: p.case.batch, (f"{kind}, {share:g}", style, index), "accepted")
    panel.set(xlabel="sequences that share the pool", ylabel="accepted tokens of 5", ylim=(0, None), xscale="log")
    panel.set_xticks([1, 4, 8, 16], ["1", "4", "8", "16"])
    panel.minorticks_off()
    panel.set_title("What a shared pool costs: pool's kind and share, 4-bit slices (as Fig. 17b)")
    figure.legend(loc="outside right upper")
    return figure


def slices(found: AcceptanceRecord) -> Figure:
    """ELMoE-3D's Fig. 17(c): what the MSB slice stands for."""
    figure, [[panel]] = panels(SIZE)
    for index, name in enumerate(TREATMENTS):
        points = found.curve("fig17c", treatment=name)
        _errors(panel, points, lambda p: p.case.bits, (name, "-", index), "alpha")
    panel.set(xlabel="bits of the slice", ylabel="acceptance rate", ylim=(0, 1.03))
    panel.set_title("What the MSB slice stands for, all experts (as Fig. 17c)")
    panel.legend()
    return figure


def cassandra(found: AcceptanceRecord) -> Figure:
    """Cassandra's Fig. 7(a): acceptance by pruning ratio and mantissa bits."""
    figure, [[panel]] = panels(SIZE)
    for index, dropped in enumerate(sorted({p.case.dropped for p in found.figures["fig7a"]})):
        points = found.curve("fig7a", dropped=dropped)
        name = f"{7 - dropped} of 7 mantissa bits"
        _errors(panel, points, lambda p: p.case.pruned, (name, "-", index), "alpha")
    panel.set(xlabel="share of the weights pruned (Wanda)", ylabel="acceptance rate", ylim=(0, 1.03))
    panel.set_title("Cassandra-1's drafts, depth 5 (as Fig. 7a)")
    panel.legend()
    return figure


def depth_and_exit(found: AcceptanceRecord) -> Figure:
    """How acceptance goes with depth, and with the layers before an early exit."""
    figure, [pair] = panels((11.5, 4.4), columns=2)
    deep, early = found.figures["depth"], found.figures["first-layers"]
    _errors(pair[0], deep, lambda p: p.case.depth, ("accepted tokens", "-", 0), "accepted")
    _law(pair[0], deep)
    pair[0].set(xlabel="draft tokens a step", ylabel="accepted tokens", title="4-bit slices, hot half of the experts")
    _errors(pair[1], early, lambda p: p.case.layers, ("acceptance rate", "-", 0), "alpha")
    pair[1].set(xlabel="layers before the exit", ylabel="acceptance rate", title="First layers, plain early exit")
    pair[1].set_xticks([p.case.layers for p in early])
    for panel in pair:
        panel.set_ylim(0, None)
    return figure


def _law(panel: Axes, points: list[MeasuredPoint]) -> None:
    """Draw what `device_model.speculation` makes of the point at the depth that all else is measured at."""
    for base in [p for p in points if p.case.depth == DEPTH]:
        depths = range(min(p.case.depth for p in points), max(p.case.depth for p in points) + 1)
        law = [accepted_at(base.alpha, DEPTH, depth) for depth in depths]
        panel.plot(depths, law, "--", color="0.5", label=f"the device model's chain, from depth {DEPTH}")
    panel.legend(loc="lower right")


def _errors(panel: Axes, points: Sequence[MeasuredPoint], x: Of, look: tuple[str, str, int], y: str) -> None:
    """Points with two standard errors either way; `look` is label, line and number of the series."""
    name, style, index = look
    errors = [2 * getattr(p, f"{y}_se") for p in points]
    look_of = f"{MARKERS[index % len(MARKERS)]}{style}"
    panel.errorbar(
        [x(p) for p in points], [getattr(p, y) for p in points], errors, fmt=look_of, label=name, markersize=5
    )


PICTURES: dict[str, Callable[[AcceptanceRecord], Figure]] = {
    "two-axes": two_axes,
    "equal-bytes": equal_bytes,
    "pool-choice": pool_choice,
    "pool-batch": pool_batch,
    "slices": slices,
    "cassandra": cassandra,
    "depth-and-exit": depth_and_exit,
}
"""By the names of their files."""

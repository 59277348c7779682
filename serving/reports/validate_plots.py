"""The pictures of `foreserve validate --plots`: predicted against published, speedups, energy, rooflines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from device_model.specs.hardware_file import load_xpu
from device_model.step import Energy
from device_model.validation.headlines import HeadlinePoint
from device_model.validation.judgement import JudgedCell
from serving.presentation.picture import panels, write_png
from serving.process.output_folder import make_folder

NAMES = {
    "xpu": "xPU",
    "pim": "xPU-PIM",
    "logicpim": "xPU-LogicPIM",
    "nmp": "xPU-NMP",
    "hb_xpu": "HB-xPU (EAGLE)",
    "elmoe3d": "ELMoE-3D",
}
COMPONENTS = ("compute", "EXT", "HB", "communication", "static")
MARKERS = "osD^"


def draw(cells: Sequence[JudgedCell], sixteen: Sequence[HeadlinePoint], folder: Path) -> list[Path]:
    """Draw all pictures as PNG files in `folder`; return their paths."""
    make_folder("--plots", folder)
    pictures = {
        "predicted-against-published": lambda: published(cells),
        "speedup": lambda: speedup(sixteen),
        "energy": lambda: energy(sixteen),
        "roofline": roofline,
    }
    return write_png(pictures, folder)


def published(cells: Sequence[JudgedCell]) -> Figure:
    """Each cell of Table 3 as a point; on the diagonal the prediction is what the paper prints. Hollow ones are above
    what any cache allows."""
    figure, [pair] = panels((11, 5.4), columns=2)
    drafts = list(dict.fromkeys(judged.row.cell.draft for judged in cells))
    for panel, mode in zip(pair, ("phi_ar", "phi_sd"), strict=True):
        known = [judged for judged in cells if getattr(judged.row.cell, mode)]
        for index, draft in enumerate(drafts):
            for resists in (False, True):
                rows = [j.row for j in known if j.row.cell.draft == draft and j.resists == resists]
                x, y = [getattr(row.cell, mode) for row in rows], [getattr(row, mode) for row in rows]
                look: dict[str, Any] = {"facecolors": "none"} if resists else {"label": draft, "color": f"C{index}"}
                panel.scatter(x, y, s=26, marker=MARKERS[index % len(MARKERS)], edgecolors=f"C{index}", **look)
        _diagonal(panel, "AR" if mode == "phi_ar" else "SD")
    pair[0].legend()
    figure.suptitle("Speedup over the xPU: ELMoE-3D, Table 3, and the device model (hollow: no cache allows it)")
    return figure


def _diagonal(panel: Axes, mode: str) -> None:
    ends = np.array([0.5, 16.0])
    panel.plot(ends, ends, color="0.4", linewidth=0.8)
    panel.fill_between(ends, ends * 0.9, ends * 1.1, color="0.9", zorder=0, label="within 10 %")
    panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    panel.set(xlabel="published", ylabel="predicted", title=f"{mode} mode")
    ticks = [0.5, 1, 2, 4, 8, 16]
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()


def speedup(sixteen: Sequence[HeadlinePoint]) -> Figure:
    """Bars as in ELMoE-3D's Fig. 14, each platform in its better mode; hatched where that is speculation."""
    figure, by_target = _by_target(sixteen, "speedup over the xPU")
    systems = [name for name in NAMES if name != "xpu"]
    for panel, points in by_target:
        for index, system in enumerate(systems):
            at = np.arange(len(points)) + (index - 2) * 0.16
            hatches = ["///" if point.platforms[system].mode == "sd" else "" for point in points]
            heights = [point.speedup(system) for point in points]
            panel.bar(at, heights, 0.15, label=NAMES[system], hatch=hatches, edgecolor="white", linewidth=0.4)
        panel.axhline(1, color="0.4", linewidth=0.8)
    figure.legend(*by_target[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.suptitle("Predicted speedup, 8 GB, MT-Bench acceptance (hatched: speculating)")
    return figure


def energy(sixteen: Sequence[HeadlinePoint]) -> Figure:
    """Stacked bars as in ELMoE-3D's Fig. 15: joules a token, by component, over those of ELMoE-3D."""
    figure, by_target = _by_target(sixteen, "energy per token over ELMoE-3D's")
    colours = colormaps["tab10"].colors  # type: ignore[attr-defined]
    for panel, points in by_target:
        for index, system in enumerate(NAMES):
            at = np.arange(len(points)) + (index - 2.5) * 0.14
            floor = np.zeros(len(points))
            for part in range(len(Energy._fields)):
                own = np.array([point.platforms["elmoe3d"].joules for point in points])
                share = np.array([point.platforms[system].energy[part] for point in points]) / own
                panel.bar(at, share, 0.13, bottom=floor, color=colours[part])
                floor += share
    handles = [Rectangle((0, 0), 1, 1, color=colours[part]) for part in range(len(COMPONENTS))]
    figure.legend(handles, COMPONENTS, loc="outside lower center", ncols=5)
    figure.suptitle("Predicted energy; bars from left: " + ", ".join(NAMES.values()))
    return figure


def _by_target(sixteen: Sequence[HeadlinePoint], label: str) -> tuple[Figure, list[tuple[Axes, list[HeadlinePoint]]]]:
    targets = list(dict.fromkeys(point.target for point in sixteen))
    figure, [row] = panels((15, 4.6), columns=len(targets))
    by_target = []
    for panel, target in zip(row, targets, strict=True):
        points = [point for point in sixteen if point.target == target]
        panel.set(title=target, xlabel="batch")
        panel.set_xticks(range(len(points)), [str(point.batch) for point in points])
        by_target.append((panel, points))
    row[0].set_ylabel(label)
    return figure, by_target


def roofline() -> Figure:
    """ELMoE-3D's Fig. 9(b): with a share of the PEs, HB loses bandwidth and throughput, EXT throughput alone."""
    figure, [[panel]] = panels((7.5, 5))
    hardware = load_xpu("elmoe3d-8gb")
    intensity = np.logspace(-1, 5, 300)
    for share, style in ((1.0, "-"), (0.25, "--")):
        peak = hardware.macs_per_s * share
        hb = np.minimum(intensity * hardware.hb.bytes_per_s * share, peak)
        ext = np.minimum(intensity * hardware.ext.bytes_per_s, peak)
        panel.plot(intensity, 2e-12 * hb, style, color="tab:blue", label=f"HB (coupled), {share:.0%} of the PEs")
        panel.plot(intensity, 2e-12 * ext, style, color="tab:orange", label=f"EXT (decoupled), {share:.0%} of the PEs")
    panel.set(xscale="log", yscale="log", title="Rooflines of the 8 GB HB-xPU")
    panel.set(xlabel="MACs per byte", ylabel="TOPS (INT8)")
    panel.legend()
    return figure

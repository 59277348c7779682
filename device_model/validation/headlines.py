"""The headline figures of ELMoE-3D, predicted, with the arithmetic behind each."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from device_model.load import load_setup
from device_model.specs.law import Law
from device_model.validation.best_mode import PerToken, best
from device_model.validation.cells import CellPrediction
from device_model.validation.table3 import Cell

TARGETS = ("Qwen3-30B-A3B", "GLM-4.7-Flash", "DeepSeek-V2-Lite", "GPT-OSS-20B")
BATCHES = (1, 4, 8, 16)
HARDWARE = "elmoe3d-8gb"
NEAR_MEMORY = ("pim", "logicpim", "nmp")
PRIOR = (*NEAR_MEMORY, "hb_xpu")


class Headline(NamedTuple):
    """A figure, what the paper says, and how it was worked out."""

    system: str
    figure: str
    value: float
    reference: float | None
    how: str


class HeadlinePoint(NamedTuple):
    """All platforms at their best for one target and batch, at 8 GB and MT-Bench's acceptance."""

    target: str
    batch: int
    platforms: dict[str, PerToken]

    def speedup(self, system: str) -> float:
        return self.platforms["xpu"].seconds / self.platforms[system].seconds

    def prior(self, systems: Sequence[str]) -> PerToken:
        """Return the fastest of some platforms."""
        return min((self.platforms[name] for name in systems), key=lambda cost: cost.seconds)


def points(law: Law = Law.REALISABLE) -> list[HeadlinePoint]:
    """Return the sixteen points behind Fig. 14 and 15 that MT-Bench has, under a law."""
    found = []
    for target in TARGETS:
        setup = load_setup(HARDWARE, target.lower(), law)
        for batch in BATCHES:
            platforms = {name: best(name, setup, batch) for name in ("xpu", *PRIOR, "elmoe3d")}
            found.append(HeadlinePoint(target, batch, platforms))
    return found


def headlines(rows: Sequence[CellPrediction], sixteen: Sequence[HeadlinePoint]) -> list[Headline]:
    """Return every headline of ELMoE-3D that follows from cells of Table 3 or from its platforms."""
    return [*_of_table(rows), *_of_speed(sixteen), *_of_energy(sixteen)]


def _of_table(rows: Sequence[CellPrediction]) -> list[Headline]:
    found = []
    for hb_gb, reference in ((4.0, 3.41), (8.0, 6.94)):
        bests = [max(r.phi_ar, r.phi_sd) for r in rows if r.cell.draft == "Elastic-SD" and r.cell.hb_gb == hb_gb]
        if bests:
            how = f"mean of the better mode of {len(bests)} Elastic-SD cells, as of Table 3; 7.1 prints 3.4 and 7.0"
            found.append(_headline(f"best-mode speedup, {hb_gb:g} GB", float(np.mean(bests)), reference, how))
    ratios = _elastic_over_eagle(rows)
    if ratios:
        how = f"phi_sd of Elastic-SD / EAGLE3, {len(ratios)} pairs with a batch of at least 4"
        found.append(_headline("Elastic-SD over EAGLE-SD, mean", float(np.mean(ratios)), 1.45, how))
        found.append(_headline("Elastic-SD over EAGLE-SD, max", max(ratios), 2.08, how))
    return found


def _elastic_over_eagle(rows: Sequence[CellPrediction]) -> list[float]:
    def key(cell: Cell) -> tuple[float, str, int]:
        return cell.hb_gb, cell.target, cell.batch

    eagle = {key(row.cell): row.phi_sd for row in rows if row.cell.draft == "EAGLE3"}
    elastic = [row for row in rows if row.cell.draft == "Elastic-SD" and row.cell.batch >= 4]
    return [row.phi_sd / eagle[key(row.cell)] for row in elastic if key(row.cell) in eagle]


def _of_speed(sixteen: Sequence[HeadlinePoint]) -> list[Headline]:
    ours = [point.speedup("elmoe3d") for point in sixteen]
    near = [point.prior(NEAR_MEMORY).seconds / point.platforms["elmoe3d"].seconds for point in sixteen]
    every = [point.prior(PRIOR).seconds / point.platforms["elmoe3d"].seconds for point in sixteen]
    how = "T_xPU / T_ours a token, both at their best, 8 GB, 4 models x 4 batches on MT-Bench (the paper: 4 datasets)"
    prior = "T / T_ours of the fastest of xPU-PIM, -LogicPIM and -NMP at each point, the platforms of Fig. 14"
    with_hb = (
        "the same with HB-xPU (EAGLE) among them; its speedups in Table 3 allow no more than 2.1 at any batch, so that "
        "the paper's 2.2 and 9.9 can't include it"
    )
    return [
        _headline("speedup over xPU, mean", float(np.mean(ours)), 6.6, how),
        _headline("speedup over xPU, max", max(ours), 12.0, how),
        _headline("speedup over the best prior platform, mean", float(np.mean(near)), 2.2, prior),
        _headline("speedup over the best prior platform, max", max(near), 9.9, prior),
        _headline("speedup over the best prior platform or HB-xPU, mean", float(np.mean(every)), None, with_hb),
    ]


def _of_energy(sixteen: Sequence[HeadlinePoint]) -> list[Headline]:
    ours = [point.platforms["elmoe3d"].joules for point in sixteen]
    xpu = [point.platforms["xpu"].joules / own for point, own in zip(sixteen, ours, strict=True)]
    prior = [point.prior(NEAR_MEMORY).joules / own for point, own in zip(sixteen, ours, strict=True)]
    how = "J a token, xPU / ours, at the modes of the speedups; nothing is fitted to energies, leakage is estimated"
    best_prior = "the same for the fastest of xPU-PIM, -LogicPIM and -NMP at each point"
    return [
        _headline("energy of xPU over ours, mean", float(np.mean(xpu)), 4.4, how),
        _headline("energy of xPU over ours, max", max(xpu), 7.2, how),
        _headline("energy of the best prior platform over ours, mean", float(np.mean(prior)), 1.4, best_prior),
        _headline("energy of the best prior platform over ours, max", max(prior), 4.9, best_prior),
    ]


def _headline(figure: str, value: float, reference: float | None, how: str) -> Headline:
    return Headline("elmoe3d", figure, value, reference, how)

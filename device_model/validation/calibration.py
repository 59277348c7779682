"""Fits the calibrated figures to cells of ELMoE-3D's Table 3 under a law: few, named, and to the last digit the same.

First what rows without a cache measure (`cacheless`), then all others at once. Under the realisable law, cells above
what any cache reaches are no part of it (`bound`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]  # has no stubs

from device_model.setup import XpuSetup
from device_model.specs.calibrated import Locality, Speculation
from device_model.specs.law import Law
from device_model.step import FloatArray
from device_model.validation.bound import bound_of
from device_model.validation.cacheless import popularity_spreads
from device_model.validation.cells import predicted, setup_of
from device_model.validation.table3 import Cell

DEVICE = "elmoe3d"  # the file of what holds for all models
# How a speedup in SD mode counts beside one in AR mode: it rests on more that is not published.
SD_WEIGHT = 0.4
# Residuals well above this (of the logarithm) count linearly, not squared: a misprint must not bend the rest.
SOFT = 0.03
STEP = 1e-4
DIGITS = 3


class Range(NamedTuple):
    """Where a fit starts, and between what it stays; a whole number is rounded once the rest is known."""

    start: float
    low: float
    high: float
    whole: bool = False


OF_MODEL = {
    "popularity_spread": Range(1.0, 0.01, 20.0),
    "hit_exponent": Range(0.3, 0.05, 1.0),
    # At most that of decoding: a prompt that joins a batch must not make it find more.
    "saturation_exponent": Range(2.0, 0.05, 10.0),
    "draft_exponent": Range(0.5, 0.02, 1.0),
    "eagle_weights_gb": Range(0.6, 0.05, 3.0),
}
OF_DEVICE = {
    "draft_depth": Range(9, 2, 14, whole=True),
    "quant_depth": Range(7, 2, 14, whole=True),
    "elastic_depth": Range(10, 2, 14, whole=True),
    "draft_width": Range(12, 1, 30, whole=True),
    "elastic_width": Range(6, 1, 30, whole=True),
    "least_share_of_top_k": Range(0.4, 0.05, 1.0),
}
# Not fitted, but chosen, as the cells say next to nothing about them. Of a tree's verified tokens and its widths only
# powers enter (see `locality_laws.Experts.choices`), so that one of them sets the scale; what a pass reads of an EAGLE
# head, the rest being its embedding table, trades against the head's size.
CHOSEN = {"verify_tokens": 19.0, "eagle_read_share": 0.4}
WHOLE = ("verify_tokens",)
# Of leaving out what resists, which depends on the fitted size of EAGLE heads.
ROUNDS = 4


@dataclass(frozen=True)
class Fit:
    """The figures of the device, and those of each model by the name of its spec file."""

    law: Law
    speculation: Speculation
    localities: dict[str, Locality]

    def setup(self, cell: Cell) -> XpuSetup:
        """Return the setup of a cell, with these figures."""
        return replace(setup_of(cell, self.law), locality=self.localities[cell.model], speculation=self.speculation)


def calibrate(cells: Sequence[Cell], law: Law = Law.REALISABLE) -> Fit:
    """Fit all figures to the cells whose speedups are given.

    Whole numbers are settled one after the other: down or up, whichever leaves less, with all others fitted anew.
    ValueError without such a cell.
    """
    given = [cell for cell in cells if cell.given]
    if not given:
        raise ValueError("No cell has a speedup; a calibration needs some to fit to")
    measured = {f"{model} popularity_spread": _rounded(s) for model, s in popularity_spreads(given).items()}
    fixed = CHOSEN | measured
    models = sorted({cell.model for cell in given})
    part, best = _reached_first(given, fixed, law)
    for name in (name for name, range_ in OF_DEVICE.items() if range_.whole):
        between = {float(floor(best.figures[name])), float(ceil(best.figures[name]))}
        best = min(
            (_Problem(part, fixed | {name: whole}, law, models).solve(best.figures) for whole in sorted(between)),
            key=lambda solution: solution.cost,
        )
        fixed[name] = best.figures[name]
    return _Problem(part, fixed, law, models).fit(best.figures)


def reached(given: Sequence[Cell], fit: Fit) -> list[Cell]:
    """Return the cells that take part in a fit: under the realisable law, those that a cache of their size reaches."""
    if fit.law is Law.PUBLISHED:
        return list(given)
    return [cell for cell in given if not bound_of(cell, fit.setup(cell)).resists(cell)]


def _reached_first(given: list[Cell], fixed: dict[str, float], law: Law) -> "tuple[list[Cell], _Solution]":
    """Return the cells that take part in a fit, and a first one."""
    models = sorted({cell.model for cell in given})
    problem = _Problem(given, fixed, law, models)
    figures = problem.start
    for _ in range(ROUNDS):
        cells = reached(given, problem.fit(figures))
        solution = _Problem(cells, fixed, law, models).solve(figures)
        if reached(given, problem.fit(solution.figures)) == cells:
            break
        figures = solution.figures
    return cells, solution


class _Solution(NamedTuple):
    """Figures by name, those of a model after its own; and half the sum of the residuals' losses."""

    figures: dict[str, float]
    cost: float


class _Problem:
    """Residuals, and their derivatives, over the logarithms of the figures that are not fixed."""

    def __init__(self, cells: list[Cell], fixed: dict[str, float], law: Law, models: Sequence[str]) -> None:
        """`models`: all that are fitted, also one of which no cell takes part."""
        self._cells = sorted(cells, key=lambda cell: cell.model)
        self._law = law
        self._fixed = fixed
        self.models = models
        self._ranges: dict[str, Range] = {name: r for name, r in OF_DEVICE.items() if name not in fixed}
        of_models = {f"{model} {name}": r for model in self.models for name, r in OF_MODEL.items()}
        self._ranges |= {name: r for name, r in of_models.items() if name not in fixed}

    @property
    def start(self) -> dict[str, float]:
        """Where a fit starts."""
        return self._fixed | {name: range_.start for name, range_ in self._ranges.items()}

    def solve(self, start: dict[str, float] | None = None) -> _Solution:
        low, high = (np.log([getattr(r, bound) for r in self._ranges.values()]) for bound in ("low", "high"))
        begin = np.log([(start or self.start)[name] for name in self._ranges])
        found = least_squares(
            self._residuals,
            np.clip(begin, low + 1e-6, high - 1e-6),
            jac=self._derivatives,
            bounds=(low, high),
            loss="soft_l1",
            f_scale=SOFT,
            xtol=1e-5,
            ftol=1e-6,
            max_nfev=60,
        )
        return _Solution(self._named(found.x), float(found.cost))

    def fit(self, figures: dict[str, float]) -> Fit:
        """Return the figures as specs have them, to the digits that are kept."""
        device = {name: _kept(name, value) for name, value in figures.items() if " " not in name}
        localities = {
            model: Locality(**{name: _rounded(figures[f"{model} {name}"]) for name in OF_MODEL})
            for model in self.models
        }
        return Fit(self._law, _speculation(device), localities)

    def _named(self, logs: FloatArray) -> dict[str, float]:
        return self._fixed | dict(zip(self._ranges, np.exp(logs).tolist(), strict=True))

    def _predicted(self, logs: FloatArray, cells: list[Cell]) -> list[float]:
        figures = self._named(logs)
        speculation = _speculation({name: figures[name] for name in (*OF_DEVICE, *CHOSEN)})
        out: list[float] = []
        for cell in cells:
            locality = Locality(**{name: figures[f"{cell.model} {name}"] for name in OF_MODEL})
            setup = replace(setup_of(cell, self._law), locality=locality, speculation=speculation)
            row = predicted(cell, setup)
            out.append(np.log(row.phi_ar / cell.phi_ar) if cell.phi_ar else 0.0)
            out.append(SD_WEIGHT * np.log(row.phi_sd / cell.phi_sd) if cell.phi_sd else 0.0)
        return out

    def _residuals(self, logs: FloatArray) -> FloatArray:
        return np.array(self._predicted(logs, self._cells))

    def _derivatives(self, logs: FloatArray) -> FloatArray:
        """By differences; a model's figures move its own cells only."""
        base = self._residuals(logs)
        jacobian = np.zeros((len(base), len(logs)))
        for column, name in enumerate(self._ranges):
            model = name.split(" ")[0] if " " in name else None
            rows = [i for i, cell in enumerate(self._cells) if model in (None, cell.model)]
            moved = logs.copy()
            moved[column] += STEP
            both = [j for i in rows for j in (2 * i, 2 * i + 1)]
            found = np.array(self._predicted(moved, [self._cells[i] for i in rows]))
            jacobian[both, column] = (found - base[both]) / STEP
        return jacobian


def _speculation(figures: dict[str, float]) -> Speculation:
    """Depths and widths may be fractions while they are fitted."""
    return Speculation(**figures)  # type: ignore[arg-type]


def _kept(name: str, value: float) -> float:
    whole = name in WHOLE or (name in OF_DEVICE and OF_DEVICE[name].whole)
    return round(value) if whole else _rounded(value)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")

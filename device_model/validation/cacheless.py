"""Rows of ELMoE-3D's Table 3 without a cache, which measure how many experts a step reads: fitted before all else, and
kept whatever the other rows would gain by another number."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]  # has no stubs

from device_model.setup import XpuSetup
from device_model.step import FloatArray
from device_model.validation.bound import bound_of
from device_model.validation.cells import drafting_device, setup_of
from device_model.validation.table3 import Cell

# Residuals of the logarithm above this count linearly.
SOFT = 0.01
SPREADS = (0.01, 20.0)  # between which a fit stays
# Of top-k in each layer: a cache with room for so few experts serves none (`Speculation.least_share_of_top_k`).
USELESS = 0.5


def popularity_spreads(cells: Sequence[Cell]) -> dict[str, float]:
    """Return the popularity spread of each model that has rows without a cache, of more than one sequence."""
    given = [cell for cell in cells if cell.phi_ar is not None and cell.batch > 1]
    rows = {model: cacheless([cell for cell in given if cell.model == model]) for model in {c.model for c in given}}
    return {model: _spread(rows[model]) for model in sorted(rows) if rows[model]}


def cacheless(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells of one model without a cache: of a scheme that leaves none; if there are none of these, where HB
    has no room for experts to speak of. EAGLE-SD's can't be told: the size of its head is fitted."""
    none = [cell for cell in cells if not _leaves_cache(cell)]
    return none or [cell for cell in cells if cell.draft != "EAGLE3" and _held_a_token(cell) < USELESS]


def _leaves_cache(cell: Cell) -> bool:
    draft = drafting_device(cell, setup_of(cell))[0].draft
    return draft is None or draft.leaves_cache


def _held_a_token(cell: Cell) -> float:
    """Return the experts of a layer that HB holds, over those that a token needs."""
    setup = setup_of(cell)
    return bound_of(cell, setup).slices / setup.model.expert_layers / setup.model.top_k


def _spread(rows: list[Cell]) -> float:
    def residuals(log: FloatArray) -> list[float]:
        return [_off(cell, with_spread(setup_of(cell), float(np.exp(log[0])))) for cell in rows]

    found = least_squares(residuals, [0.0], bounds=np.log(SPREADS), loss="soft_l1", f_scale=SOFT)
    return float(np.exp(found.x[0]))


def _off(cell: Cell, setup: XpuSetup) -> float:
    assert cell.phi_ar is not None
    return float(np.log(bound_of(cell, setup).cacheless_phi_ar / cell.phi_ar))


def with_spread(setup: XpuSetup, spread: float) -> XpuSetup:
    """Return a setup whose experts differ so much in popularity."""
    return replace(setup, locality=replace(setup.locality, popularity_spread=spread))

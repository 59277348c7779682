"""Errors of predictions against published cells."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from device_model.validation.cells import CellPrediction


class Errors(NamedTuple):
    """Relative errors in percent over `cells` figures: mean, 90th percentile and largest of their magnitudes."""

    cells: int
    mape: float
    p90: float
    largest: float


def errors_of(rows: Iterable[CellPrediction]) -> tuple[Errors, Errors]:
    """Return the errors of phi_ar and of phi_sd, over the cells where they are given."""
    rows = list(rows)
    ar = [row.phi_ar / row.cell.phi_ar - 1 for row in rows if row.cell.phi_ar]
    sd = [row.phi_sd / row.cell.phi_sd - 1 for row in rows if row.cell.phi_sd]
    return _errors(ar), _errors(sd)


def _errors(relative: list[float]) -> Errors:
    if not relative:
        return Errors(0, 0.0, 0.0, 0.0)
    percent = 100 * np.abs(relative)
    return Errors(len(percent), float(percent.mean()), float(np.percentile(percent, 90)), float(percent.max()))

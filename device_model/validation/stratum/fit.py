"""Fits the three constants of Stratum and its baselines to 12 of its figures: the same to the last digit each time.

The share of rows between hot and cold experts moves the tiering and the hot hits, the share of bandwidth and the time
of a kernel the throughput over GPUs. All else that is predicted, request times, 512 layers and layers per area, energy
and swaps, is left to judge by. Residuals are logarithms of predicted over published; every figure counts alike.
"""

from collections.abc import Sequence
from math import log

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]  # has no stubs

from device_model.step import FloatArray
from device_model.validation.stratum.predictions import FITTED
from device_model.validation.stratum.results import Result, read_results
from device_model.validation.stratum.setting import Constants, Setting

START, LOW, HIGH = Constants(0.5, 0.65, 6.0), Constants(0.0, 0.3, 0.0), Constants(1.0, 1.0, 20.0)
DIGITS = 3


def fitted_results() -> list[Result]:
    """Return the figures that are fitted to."""
    return [result for result in read_results() if result.metric in FITTED]


def fit(results: Sequence[Result]) -> Constants:
    """Return the constants that leave the least squares, to the digits that are kept."""
    found = least_squares(
        lambda x: _residuals(x, results), START, bounds=(LOW, HIGH), x_scale=START, diff_step=1e-3, xtol=1e-6
    )
    return Constants(*(float(f"{value:.{DIGITS}g}") for value in found.x))


def left_out(results: Sequence[Result]) -> list[float]:
    """Return the relative error of each figure that is fitted to, by constants that were fitted to all others."""
    errors = []
    for result in results:
        setting = Setting(fit([other for other in results if other is not result]))
        errors.append(FITTED[result.metric](setting, result.model) / (result.value or 1.0) - 1)
    return errors


def _residuals(constants: FloatArray, results: Sequence[Result]) -> FloatArray:
    setting = Setting(Constants(*constants.tolist()))
    return np.array([log(FITTED[r.metric](setting, r.model) / (r.value or 1.0)) for r in results])

"""Fits the three figures of an emulated GPU to measurements made on a real one: to the last digit the same each time.

Residuals are logarithms of predicted over measured; every measurement counts alike.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]  # has no stubs

from device_model.one_tier.gpu import GpuDevice, GpuSetup
from device_model.one_tier.kernels import kernels
from device_model.specs.spec import MICRO, DeviceError
from device_model.step import FloatArray
from device_model.systems import gpu
from device_model.validation.measured.measurement import Measurement

LOW, HIGH = (0.02, 0.01, 0.0), (1.0, 1.0, 5000.0)
SCALE = (0.1, 0.1, 10.0)
DIGITS = 3
STARTS = ((0.9, 0.7, 1.0), (0.6, 0.4, 30.0), (0.3, 0.1, 200.0))
# By how much times must change, on some measurement, when a figure changes by its scale or a tenth of itself, so that
# the figure counts as measured.
TELLING = 0.004
# Of the singular values of the residuals' derivatives, scaled alike, the least to the largest: below it two figures do
# the same to all measurements.
APART = 0.01


class GpuFigures(NamedTuple):
    """Shares of the peaks that an engine reaches, and microseconds that a layer takes beside."""

    bandwidth_share: float
    compute_share: float
    layer_us: float


class GpuFit(NamedTuple):
    """The figures, which of them the measurements say nothing about (they are as before), and the relative error of
    each measurement."""

    figures: GpuFigures
    untold: tuple[str, ...]
    errors: tuple[float, ...]


def figures_of(setup: GpuSetup) -> GpuFigures:
    """Return the figures that hardware has before it is measured."""
    hardware, calibration = setup.hardware, setup.calibration
    launched_s = kernels(setup.model, calibration, hardware.gpus) * calibration.kernel_s
    layer_us = hardware.layer_us if hardware.is_measured else launched_s / setup.model.layers / MICRO
    return GpuFigures(calibration.bandwidth_share, calibration.compute_share, layer_us)


def emulated(setup: GpuSetup, figures: GpuFigures) -> GpuDevice:
    """Return the same GPU with other figures."""
    hardware = replace(setup.hardware, **figures._asdict())
    return gpu.Device(gpu.Device.setup_of(setup.target, hardware, setup.model))


def fit(setup: GpuSetup, measurements: Sequence[Measurement]) -> GpuFit:
    """Fit the figures that the measurements tell of. Raise DeviceError if these are none, or two that look alike."""
    before = figures_of(setup)
    told = _told(setup, before, measurements)
    found = before
    for _ in range(2):  # what tells of nothing before a fit may after it, and the other way round
        found = _fitted(setup, before, told, measurements)
        told = _told(setup, found, measurements)
    untold = tuple(name for index, name in enumerate(GpuFigures._fields) if index not in told)
    kept = GpuFigures(*(float(f"{value:.{DIGITS}g}") for value in found))
    device = emulated(setup, kept)
    errors = tuple(one.predicted_s(device) / one.seconds - 1 for one in measurements)
    return GpuFit(kept, untold, errors)


def _fitted(
    setup: GpuSetup, before: GpuFigures, told: Sequence[int], measurements: Sequence[Measurement]
) -> GpuFigures:
    """Return the figures with those at the places `told` fitted, from several starts, of which the best counts."""
    if len(measurements) < len(told) or not told:
        raise DeviceError(
            f"{len(measurements)} measurements are too few for {len(GpuFigures._fields)} figures; allowed are some at "
            "several batches and contexts, and of prompts."
        )

    def residuals(values: FloatArray) -> FloatArray:
        return _logs(setup, _with(before, told, values), measurements)

    bounds = ([LOW[i] for i in told], [HIGH[i] for i in told])
    best = min(
        (
            least_squares(residuals, [start[i] for i in told], bounds=bounds, x_scale=[SCALE[i] for i in told])
            for start in (before, *STARTS)
        ),
        key=lambda solution: float(solution.cost),
    )
    _check_apart(best.jac * np.array([SCALE[i] for i in told]), [GpuFigures._fields[i] for i in told])
    return _with(before, told, best.x)


def _with(before: GpuFigures, told: Sequence[int], values: FloatArray) -> GpuFigures:
    figures = list(before)
    for index, value in zip(told, values.tolist(), strict=True):
        figures[index] = value
    return GpuFigures(*figures)


def _logs(setup: GpuSetup, figures: GpuFigures, measurements: Sequence[Measurement]) -> FloatArray:
    device = emulated(setup, figures)
    return np.array([log(one.predicted_s(device) / one.seconds) for one in measurements])


def _told(setup: GpuSetup, at: GpuFigures, measurements: Sequence[Measurement]) -> list[int]:
    """Return the places of the figures of which some measurement tells."""
    base, told = _logs(setup, at, measurements), []
    for index, value in enumerate(at):
        step = max(0.1 * value, SCALE[index])
        moved = at._replace(**{GpuFigures._fields[index]: value - step if value > step else value + step})
        if np.abs(_logs(setup, moved, measurements) - base).max() > TELLING:
            told.append(index)
    return told


def _check_apart(derivatives: FloatArray, names: Sequence[str]) -> None:
    values = np.linalg.svd(derivatives / np.linalg.norm(derivatives, axis=0).clip(1e-12), compute_uv=False)
    if values[-1] < APART * values[0]:
        raise DeviceError(
            f"The measurements do not tell {' and '.join(names)} apart; allowed are some at batches and contexts that "
            "differ more, and of prompts."
        )

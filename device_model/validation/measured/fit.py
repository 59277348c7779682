"""Fits the four figures of an emulated GPU to measurements made on a real one: to the last digit the same each time.

Residuals are logarithms of predicted over measured; each measurement counts alike, but for what no figures reproduce.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, log
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]  # has no stubs

from device_model.one_tier.gpu import GpuDevice, GpuSetup
from device_model.one_tier.kernels import kernels
from device_model.specs.spec import MICRO, DeviceError
from device_model.step import FloatArray
from device_model.systems import gpu
from device_model.validation.measured.measurement import Measurement

LOW, HIGH = (0.02, 0.01, 0.0, 0.0), (1.0, 1.0, 5000.0, inf)
SCALE = (0.1, 0.1, 10.0, 10.0)
# Changes of the figures before a fit, among them microseconds of a layer that hold up any pass.
PROBE = (0.1, 0.1, 10.0, inf)
DIGITS = 3
# Microseconds, or a share: of less a fit that ends at 0 tells nothing but how it came there.
LEAST = 1e-3
STARTS = ((0.9, 0.7, 1.0), (0.6, 0.4, 30.0), (0.3, 0.1, 200.0))
# By how much times must change, on some measurement, when a figure changes by its scale or a tenth of itself, so that
# the figure counts as measured.
TELLING = 0.004
# Of the singular values of the residuals' derivatives, scaled alike, the least to the largest: below it two figures do
# the same to all measurements.
APART = 0.01


# The logarithm by which a measurement is usually missed. What is far beyond it counts for little: it is of something
# that the law knows nothing of, as a kernel that suits some sizes badly, and would bend the figures for all others.
USUAL = 0.05


# A floor is believed if by it the logarithm of the cost, times the measurements, falls by so many times that of their
# number (twice what Schwarz's criterion asks for, Ann. Stat. 1978), costs below `EXACT` being none.
WORTH, EXACT = 2.0, 1e-9
WITHOUT_FLOOR = (0, 1, 2)


PEAKS = {"bandwidth_share": "hbm_gb_per_s", "compute_share": "fp16_tflops"}
"""The shares, and the peaks of the data sheet that they are of."""


class GpuFigures(NamedTuple):
    """Shares of the peaks that an engine reaches, microseconds that a layer takes beside, and those that it takes at
    least in passes that no CUDA graph holds (0: no such passes, or none that the host holds up)."""

    bandwidth_share: float
    compute_share: float
    layer_us: float
    eager_layer_us: float = 0.0


class GpuFit(NamedTuple):
    """The figures, which of them the measurements say nothing about (they are as before), and the relative error of
    each measurement."""

    figures: GpuFigures
    untold: tuple[str, ...]
    errors: tuple[float, ...]

    @property
    def at_peak(self) -> tuple[str, ...]:
        """The shares that were fitted to all of their peak, which no engine reaches."""
        return tuple(name for name in PEAKS if name not in self.untold and getattr(self.figures, name) >= 1.0)


def figures_of(setup: GpuSetup) -> GpuFigures:
    """Return the figures that hardware has before it is measured."""
    hardware, calibration = setup.hardware, setup.calibration
    launched_s = kernels(setup.model, calibration, hardware.gpus) * calibration.kernel_s
    layer_us = hardware.layer_us if hardware.is_measured else launched_s / setup.model.layers / MICRO
    return GpuFigures(calibration.bandwidth_share, calibration.compute_share, layer_us, hardware.eager_layer_us)


def emulated(setup: GpuSetup, figures: GpuFigures) -> GpuDevice:
    """Return the same GPU with other figures."""
    hardware = replace(setup.hardware, **figures._asdict())
    return gpu.Device(gpu.Device.setup_of(setup.target, hardware, setup.model))


def fit(setup: GpuSetup, measurements: Sequence[Measurement]) -> GpuFit:
    """Fit the figures that the measurements tell of. Raise DeviceError if these are none, or two that look alike."""
    before = shipped = figures_of(setup)
    if _shortest_s(setup, measurements):
        # A host that held up other passes, measured earlier, may hold up none of these.
        before = before._replace(eager_layer_us=0.0)
    found, told, cost = _of_what_is_told(setup, before, measurements, (*range(len(before)),))
    if found.eager_layer_us:
        # Noise of the shortest prompt looks like a floor that holds it up, and nothing else tells that it isn't one.
        plain = _of_what_is_told(setup, before._replace(eager_layer_us=0.0), measurements, WITHOUT_FLOOR)
        if len(measurements) * log((plain[2] + EXACT) / (cost + EXACT)) < WORTH * log(len(measurements)):
            found, told, _ = plain
    kept_as_was = (index for index in range(len(found)) if index not in told and found[index] == shipped[index])
    untold = tuple(GpuFigures._fields[index] for index in kept_as_was)
    kept = GpuFigures(*(float(f"{value:.{DIGITS}g}") if value >= LEAST else 0.0 for value in found))
    device = emulated(setup, kept)
    errors = tuple(one.predicted_s(device) / one.seconds - 1 for one in measurements)
    return GpuFit(kept, untold, errors)


def _of_what_is_told(
    setup: GpuSetup, before: GpuFigures, measurements: Sequence[Measurement], places: Sequence[int]
) -> tuple[GpuFigures, list[int], float]:
    """Return the figures, with those at `places` fitted that the measurements tell of; which these are; and the cost of
    the fit."""
    told, found, cost, fitted = _told(setup, before, measurements, PROBE), before, inf, None
    for _ in range(3):  # what tells of nothing before a fit may after it, and the other way round
        told = [place for place in told if place in places]
        if told == fitted:
            break
        found, cost = _fitted(setup, before, told, measurements)
        fitted, told = told, _told(setup, found, measurements, SCALE)
    return found, [place for place in told if place in places], cost


def _fitted(
    setup: GpuSetup, before: GpuFigures, told: Sequence[int], measurements: Sequence[Measurement]
) -> tuple[GpuFigures, float]:
    """Return the figures with those at the places `told` fitted, from several starts, of which the best counts, and its
    cost."""
    if len(measurements) < len(told) or not told:
        raise DeviceError(
            f"{len(measurements)} measurements are too few for {len(GpuFigures._fields)} figures; allowed are some at "
            "several batches and contexts, and of prompts."
        )

    floor_us = _shortest_s(setup, measurements) / setup.model.layers / MICRO

    def residuals(values: FloatArray) -> FloatArray:
        return _logs(setup, _with(before, told, values), measurements)

    bounds = ([LOW[i] for i in told], [HIGH[i] for i in told])
    best = min(
        (
            least_squares(
                residuals,
                [start[i] for i in told],
                bounds=bounds,
                x_scale=[SCALE[i] for i in told],
                loss="cauchy",
                f_scale=USUAL,
            )
            for start in (before, *(GpuFigures(*start, floor_us) for start in STARTS))
        ),
        key=lambda solution: float(solution.cost),
    )
    _check_apart(_derivatives(residuals, best.x), [GpuFigures._fields[i] for i in told])
    return _with(before, told, best.x), float(best.cost)


def _shortest_s(setup: GpuSetup, measurements: Sequence[Measurement]) -> float:
    """Return the seconds of the shortest pass that no CUDA graph holds, 0 if none does: there the host shows most."""
    graph = setup.calibration.graph_tokens
    eager = (one for one in measurements if one.batch * one.passes[0].new_tokens > graph)
    return min((one.seconds / one.passes[0].steps for one in eager if len(one.passes) == 1), default=0.0)


def _with(before: GpuFigures, told: Sequence[int], values: FloatArray) -> GpuFigures:
    figures = list(before)
    for index, value in zip(told, values.tolist(), strict=True):
        figures[index] = value
    return GpuFigures(*figures)


def _logs(setup: GpuSetup, figures: GpuFigures, measurements: Sequence[Measurement]) -> FloatArray:
    device = emulated(setup, figures)
    return np.array([log(one.predicted_s(device)) - log(one.seconds) for one in measurements])


def _told(
    setup: GpuSetup, at: GpuFigures, measurements: Sequence[Measurement], changes: tuple[float, ...]
) -> list[int]:
    """Return the places of the figures of which some measurement tells: it moves with changes of these sizes, or of a
    tenth of the figure."""
    base, told = _logs(setup, at, measurements), []
    for index, value in enumerate(at):
        step = max(0.1 * value, changes[index])
        moved = at._replace(**{GpuFigures._fields[index]: value - step if value > step else value + step})
        if np.abs(_logs(setup, moved, measurements) - base).max() > TELLING:
            told.append(index)
    return told


def _derivatives(residuals: Callable[[FloatArray], FloatArray], at: FloatArray) -> FloatArray:
    """Return the derivatives of [measurements] residuals by the logarithms of [figures], [measurements, figures]; those
    of a fit's result leave out what is far off."""
    base = residuals(at)
    steps = np.diag(np.maximum(at, 1e-3) * 1e-4)
    return np.column_stack([residuals(at + step) - base for step in steps])


def _check_apart(derivatives: FloatArray, names: Sequence[str]) -> None:
    """Raise DeviceError if two figures do the same to all measurements; those that do nothing are dropped later."""
    lengths = np.linalg.norm(derivatives, axis=0)
    names = [name for name, length in zip(names, lengths, strict=True) if length]
    values = np.linalg.svd(derivatives[:, lengths > 0] / lengths[lengths > 0], compute_uv=False)
    if values[-1] < APART * values[0]:
        raise DeviceError(
            f"The measurements do not tell {' and '.join(names)} apart; allowed are some at batches and contexts that "
            "differ more, and of prompts."
        )

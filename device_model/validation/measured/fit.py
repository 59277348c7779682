"""Fits the figures of an emulated GPU to measurements made on a real one: to the last digit the same each time.

Residuals are logarithms of predicted over measured; each measurement counts alike, but for what no figures reproduce.
"""

from collections.abc import Collection, Mapping, Sequence
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

LOW, HIGH = (0.02, 0.01, 0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 5000.0, inf, 1e5, inf)
SCALE = (0.1, 0.1, 10.0, 10.0, 300.0, 300.0)
# Changes of the figures before a fit, among them microseconds of a layer or a pass that hold up any pass.
PROBE = (0.1, 0.1, 10.0, inf, 300.0, inf)
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
# number for each of its figures (twice what Schwarz's criterion asks for, Ann. Stat. 1978), costs below `EXACT` being
# none.
WORTH, EXACT = 2.0, 1e-9


PEAKS = {"bandwidth_share": "hbm_gb_per_s", "compute_share": "fp16_tflops"}
"""The shares, and the peaks of the data sheet that they are of."""

BY_LAYER = {"pass_us": "layer_us", "eager_pass_us": "eager_layer_us"}
"""Figures of a pass, and those of a layer that do the same to all passes of one model."""


class GpuFigures(NamedTuple):
    """Shares of the peaks that an engine reaches; microseconds that a layer takes beside, and those that it takes at
    least in passes that no CUDA graph holds (0: no such passes, or none that the host holds up); and both once more,
    for what a pass takes whatever its layers."""

    bandwidth_share: float
    compute_share: float
    layer_us: float
    eager_layer_us: float = 0.0
    pass_us: float = 0.0
    eager_pass_us: float = 0.0


EVERY = tuple(range(len(GpuFigures._fields)))
FLOOR = tuple(map(GpuFigures._fields.index, ("eager_layer_us", "eager_pass_us")))
NO_FLOOR = {GpuFigures._fields[place]: 0.0 for place in FLOOR}


class Measured(NamedTuple):
    """What was measured of a model on a GPU."""

    setup: GpuSetup
    measurements: Sequence[Measurement]

    def logs(self, figures: GpuFigures) -> FloatArray:
        """Return, of each measurement, the logarithm of what figures predict over what was measured."""
        device = emulated(self.setup, figures)
        return np.array([log(one.predicted_s(device)) - log(one.seconds) for one in self.measurements])

    def errors(self, figures: GpuFigures) -> tuple[float, ...]:
        """Return the relative error of each measurement."""
        device = emulated(self.setup, figures)
        return tuple(one.predicted_s(device) / one.seconds - 1 for one in self.measurements)

    @property
    def shortest_s(self) -> float:
        """The seconds of the shortest pass that no CUDA graph holds, 0 if none does: there the host shows most."""
        graph = self.setup.calibration.graph_tokens
        eager = (one for one in self.measurements if one.batch * one.passes[0].new_tokens > graph)
        return min((one.seconds / one.passes[0].steps for one in eager if len(one.passes) == 1), default=0.0)


class GpuFit(NamedTuple):
    """The figures; those that are as they were, and why; and the relative errors of each model's measurements."""

    figures: GpuFigures
    kept: Mapping[str, str]
    errors: tuple[tuple[float, ...], ...]

    @property
    def at_peak(self) -> tuple[str, ...]:
        """The shares that were fitted to all of their peak, which no engine reaches."""
        return tuple(name for name in PEAKS if name not in self.kept and getattr(self.figures, name) >= 1.0)


def figures_of(setup: GpuSetup) -> GpuFigures:
    """Return the figures that hardware has before it is measured."""
    hardware, calibration = setup.hardware, setup.calibration
    launched_s = kernels(setup.model, calibration, hardware.gpus) * calibration.kernel_s
    layer_us = hardware.layer_us if hardware.is_measured else launched_s / setup.model.layers / MICRO
    shares = calibration.bandwidth_share, calibration.compute_share
    return GpuFigures(*shares, layer_us, hardware.eager_layer_us, hardware.pass_us, hardware.eager_pass_us)


def emulated(setup: GpuSetup, figures: GpuFigures) -> GpuDevice:
    """Return the same GPU with other figures."""
    hardware = replace(setup.hardware, **figures._asdict())
    return gpu.Device(gpu.Device.setup_of(setup.target, hardware, setup.model))


def fit(*measured: Measured) -> GpuFit:
    """Fit the figures that the measurements tell of, of one model or of several on the same GPU. What a pass takes by
    itself is fitted to models of different numbers of layers, and stays as it is with one. Raise DeviceError if no
    figure is told of, or two look alike."""
    _check_layers(measured)
    before = shipped = figures_of(measured[0].setup)
    if any(one.shortest_s for one in measured):
        # A host that held up other passes, measured earlier, may hold up none of these.
        before = before._replace(eager_layer_us=0.0)
    found, told, cost = _of_what_is_told(measured, before, EVERY)
    if any(found[place] for place in FLOOR):
        # Noise of the shortest prompt looks like a floor that holds it up, and nothing else tells that it isn't one.
        without = [place for place in EVERY if place not in FLOOR]
        plain = _of_what_is_told(measured, before._replace(**NO_FLOOR), without)
        count, more = sum(len(one.measurements) for one in measured), max(1, len({*told} & {*FLOOR}))
        if count * log((plain[2] + EXACT) / (cost + EXACT)) < WORTH * more * log(count):
            found, told, _ = plain
    figures = GpuFigures(*(float(f"{value:.{DIGITS}g}") if value >= LEAST else 0.0 for value in found))
    fitted = {name for place, name in enumerate(GpuFigures._fields) if place in told or found[place] != shipped[place]}
    kept = {name: _why(name, fitted) for name in GpuFigures._fields if name not in fitted}
    return GpuFit(figures, kept, tuple(one.errors(figures) for one in measured))


def _check_layers(measured: Sequence[Measured]) -> None:
    """Raise DeviceError for several models that all have as many layers."""
    layers = {one.setup.model.layers for one in measured}
    if len(measured) > 1 and len(layers) == 1:
        names = " and ".join(one.setup.target for one in measured)
        raise DeviceError(
            f"{names} have {layers.pop()} layers each, so that they do not tell what a pass takes by itself from what "
            "its layers do; allowed are models of different numbers of layers, or one at a time."
        )


def _why(name: str, fitted: Collection[str]) -> str:
    """Return why a figure was kept, beside those that were fitted."""
    if (layer := BY_LAYER.get(name)) in fitted:
        return f"only models of different numbers of layers tell it from {layer}"
    return "nothing tells of it"


def _of_what_is_told(
    measured: Sequence[Measured], before: GpuFigures, places: Sequence[int]
) -> tuple[GpuFigures, list[int], float]:
    """Return the figures, with those at `places` fitted that the measurements tell of; which these are; and the cost of
    the fit."""
    told, found, cost = _told(measured, before, PROBE), before, inf
    fitted: list[int] = []
    for _ in range(3):  # what tells of nothing before a fit may after it, and the other way round
        told = [place for place in told if place in places]
        if fitted and told == fitted:
            break
        found, cost = _fitted(measured, before, told)
        fitted, told = told, _told(measured, found, SCALE)
    _check_apart(measured, found, fitted)
    return found, [place for place in told if place in places], cost


def _fitted(measured: Sequence[Measured], before: GpuFigures, told: Sequence[int]) -> tuple[GpuFigures, float]:
    """Return the figures with those at the places `told` fitted, from several starts, of which the best counts, and its
    cost."""
    count = sum(len(one.measurements) for one in measured)
    if count < len(told) or not told:
        raise DeviceError(
            f"{count} measurements are too few for the figures of a GPU; allowed are some at several batches and "
            "contexts, and of prompts."
        )

    floor_us, bounds = _floor_us(measured, before), ([LOW[i] for i in told], [HIGH[i] for i in told])
    best = min(
        (
            least_squares(
                lambda values: _logs(measured, _with(before, told, values)),
                [start[i] for i in told],
                bounds=bounds,
                x_scale=[SCALE[i] for i in told],
                loss="cauchy",
                f_scale=USUAL,
            )
            for start in (before, *(GpuFigures(*start, floor_us, *before[4:]) for start in STARTS))
        ),
        key=lambda solution: float(solution.cost),
    )
    return _with(before, told, best.x), float(best.cost)


def _floor_us(measured: Sequence[Measured], before: GpuFigures) -> float:
    """Return the microseconds of a layer at which the host holds up no pass for longer than it took, 0 without one
    that no CUDA graph holds."""
    floors = (
        (one.shortest_s / MICRO - before.eager_pass_us) / one.setup.model.layers for one in measured if one.shortest_s
    )
    return max(min(floors, default=0.0), 0.0)


def _with(before: GpuFigures, told: Sequence[int], values: FloatArray) -> GpuFigures:
    figures = list(before)
    for index, value in zip(told, values.tolist(), strict=True):
        figures[index] = value
    return GpuFigures(*figures)


def _logs(measured: Sequence[Measured], figures: GpuFigures) -> FloatArray:
    return np.concatenate([one.logs(figures) for one in measured])


def _told(measured: Sequence[Measured], at: GpuFigures, changes: tuple[float, ...]) -> list[int]:
    """Return the places of the figures of which some measurement tells: it moves with changes of these sizes, or of a
    tenth of the figure. Of what a pass takes by itself only models of different numbers of layers tell."""
    before, told = [one.logs(at) for one in measured], []
    for place, (name, value) in enumerate(at._asdict().items()):
        step = max(0.1 * value, changes[place])
        moved = at._replace(**{name: value - step if value > step else value + step})
        pairs = zip(measured, before, strict=True)
        layers = {m.setup.model.layers for m, logs in pairs if np.abs(m.logs(moved) - logs).max() > TELLING}
        if len(layers) > (name in BY_LAYER):
            told.append(place)
    return told


def _check_apart(measured: Sequence[Measured], at: GpuFigures, places: Sequence[int]) -> None:
    """Raise DeviceError if two of the figures at `places` do the same to all measurements; those that do nothing are
    passed over."""
    values, base = np.array([at[place] for place in places]), _logs(measured, at)
    steps = np.diag(np.maximum(values, 1e-3) * 1e-4)
    # By the logarithms of figures; those of a fit's result leave out what is far off.
    derivatives = np.column_stack([_logs(measured, _with(at, places, values + step)) - base for step in steps])
    lengths = np.linalg.norm(derivatives, axis=0)
    names = [GpuFigures._fields[place] for place, length in zip(places, lengths, strict=True) if length]
    apart = np.linalg.svd(derivatives[:, lengths > 0] / lengths[lengths > 0], compute_uv=False)
    if apart[-1] < APART * apart[0]:
        raise DeviceError(
            f"The measurements do not tell {' and '.join(names)} apart; allowed are some at batches and contexts that "
            "differ more, and of prompts."
        )

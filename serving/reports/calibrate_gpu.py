"""`foreserve calibrate --measured`: fits a GPU's four figures to times that were measured on it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from device_model.load import load_model
from device_model.one_tier.gpu import GpuSetup
from device_model.specs.hardware_file import FOLDER, is_file, load_hardware
from device_model.specs.kinds.gpu import KIND
from device_model.specs.kinds.gpu import Hardware as Gpu
from device_model.specs.spec import DeviceError
from device_model.systems import gpu
from device_model.validation.measured.fit import PEAKS, GpuFigures, GpuFit, figures_of, fit
from device_model.validation.measured.hardware_text import hardware_text
from device_model.validation.measured.measurement import Measurement
from device_model.validation.measured.step_table import read_step_table
from device_model.validation.measured.vllm_results import LatencyShape, read_results
from serving.key_values import parse_terms
from serving.presentation.table import Table
from serving.process.output_folder import make_folder, write_text
from serving.usage_error import UsageError

JSON = ".json"
OPTION = "--measured"
MOST_OFF = 15.0
"""Percent of mean error beyond which figures are told not to fit: nobody should size anything by them."""
SHAPE: dict[str, type[int]] = dict.fromkeys(LatencyShape._fields, int)


class GpuCalibration(NamedTuple):
    """A fit, the figures before it, what it was fitted to, and the text of its hardware file."""

    before: GpuFigures
    fit: GpuFit
    measurements: list[Measurement]
    text: str


def calibrated(files: list[str], hardware: str, model: str, date: str) -> GpuCalibration:
    """Fit to the measurements of some files. Raise UsageError or DeviceError for files that can't be read or say too
    little, and for hardware of another kind."""
    setup = _setup(hardware, model)
    named = [_file_and_shape(text) for text in files]
    measurements = [one for path, shape in named for one in _read(path, shape)]
    _check(setup, measurements)
    found = fit(setup, measurements)
    names, (mean, largest) = ", ".join(path.name for path, _ in named), _errors(found)
    how = (
        f"{len(measurements)} measurements of {names} with {model}, on {date} by `foreserve calibrate {OPTION}`: mean "
        f"error {mean:.1f} %, largest {largest:.1f} %{', so that they do not fit' if mean > MOST_OFF else ''}"
        f"{', and faster than the data sheet allows' if found.at_peak else ''}"
    )
    base = Path(hardware) if is_file(hardware) else FOLDER / f"{hardware}.toml"
    return GpuCalibration(figures_of(setup), found, measurements, hardware_text(base, found, how))


def write(found: GpuCalibration, hardware: str, folder: Path) -> Path:
    """Write the hardware file into a folder; return its path. Raise UsageError."""
    make_folder("--out", folder)
    path = folder / f"{Path(hardware).stem.removesuffix('-measured')}-measured.toml"
    write_text("--out", path, found.text)
    return path


def show(found: GpuCalibration, console: Console) -> None:
    """Print the figures before and after, and each measurement beside what is predicted."""
    fitted = found.fit
    figures = [
        (name, f"{before:.3g}", "kept: nothing tells of it" if name in fitted.untold else f"{after:.3g}")
        for name, before, after in zip(GpuFigures._fields, found.before, fitted.figures, strict=True)
    ]
    console.print(Table(("figure", "before", "fitted"), figures, words=(0,)))
    rows = [
        (one.where, f"{one.batch}", *(f"{s * 1e3:.2f}" for s in (one.seconds, one.seconds * (1 + off))), f"{off:+.1%}")
        for one, off in zip(found.measurements, fitted.errors, strict=True)
    ]
    console.print(Table(("measurement", "batch", "measured, ms", "predicted", "error"), rows, words=(0,)))
    mean, largest = _errors(fitted)
    console.print(f"Mean error {mean:.1f} %, largest {largest:.1f} %, of {len(rows)} measurements.")
    for sentence in _doubts(fitted, mean):
        console.print(sentence)


def _doubts(fitted: GpuFit, mean: float) -> Iterator[str]:
    """Yield why nobody should size anything by the figures."""
    if fitted.at_peak:
        peaks = " and ".join(f"{name} is 1 (of {PEAKS[name]})" for name in fitted.at_peak)
        yield (
            f"{peaks}: what was measured is as fast as the data sheet's peak, or faster, which no engine is. Is it "
            "this hardware that was measured, and the model in the same bits?"
        )
    if mean > MOST_OFF:
        yield (
            "The figures do not fit what was measured: do not size anything by them. Is it the model and the hardware "
            "that were measured, in the same bits, and are the times in seconds?"
        )


def _setup(hardware: str, model: str) -> GpuSetup:
    found = load_hardware(hardware)
    if not isinstance(found, Gpu):
        raise UsageError(f"{OPTION} fits GPUs, and {hardware} is of the kind {found.kind}; allowed is {KIND}.")
    return gpu.Device.setup_of(model, found, load_model(model))


def _file_and_shape(text: str) -> tuple[Path, LatencyShape | None]:
    """Return the file, and what a latency benchmark ran, of `FILE` or `FILE: batch=8, input=1024, output=128`."""
    name, colon, terms = text.partition(":")
    if not colon:
        return Path(text), None
    values = parse_terms(terms, SHAPE, OPTION)
    given = [int(values.get(name, 0)) for name in LatencyShape._fields]
    if min(given) < 1 or not name.endswith(JSON):
        terms = ", ".join(f"{name}=..." for name in LatencyShape._fields)
        raise UsageError(
            f"{OPTION} has {text!r}; allowed is a latency benchmark's FILE{JSON}: {terms}, each from 1 on."
        )
    return Path(name), LatencyShape(*given)


def _read(path: Path, shape: LatencyShape | None) -> list[Measurement]:
    return read_results(path, shape) if path.suffix == JSON else read_step_table(path)


def _check(setup: GpuSetup, measurements: list[Measurement]) -> None:
    """Refuse what the emulated GPU can't hold: it would be another model, or in other bits, than was measured."""
    device = gpu.Device(setup)
    for one in measurements:
        if one.batch * one.longest > device.kv_capacity_tokens or one.longest > device.max_context_tokens:
            raise DeviceError(
                f"{one.where}: {one.batch} sequences of {one.longest} tokens are more than {setup.target} has room for "
                f"on this hardware; allowed are {device.kv_capacity_tokens} tokens in all, and "
                f"{device.max_context_tokens} of one. Is it the model that was measured, in the same bits?"
            )


def _errors(found: GpuFit) -> tuple[float, float]:
    """Return the mean and the largest magnitude, in percent."""
    errors = [100 * abs(error) for error in found.errors]
    return sum(errors) / len(errors), max(errors)

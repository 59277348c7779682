"""`foreserve calibrate --measured`: fits a GPU's figures to times that were measured on it, of one model or more."""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rich.console import Console

from device_model.load import load_model
from device_model.specs.hardware_file import FOLDER, is_file, load_hardware
from device_model.specs.kinds.gpu import KIND
from device_model.specs.kinds.gpu import Hardware as Gpu
from device_model.specs.spec import DeviceError
from device_model.systems import gpu
from device_model.validation.measured.fit import PEAKS, GpuFigures, GpuFit, Measured, figures_of, fit
from device_model.validation.measured.hardware_text import hardware_text
from device_model.validation.measured.measurement import Measurement
from device_model.validation.measured.step_table import read_step_table
from device_model.validation.measured.vllm_results import LatencyShape, read_results
from serving.key_values import parse_terms
from serving.presentation.table import Table
from serving.process.output_folder import make_folder, write_text
from serving.scenario.scenario import Scenario
from serving.usage_error import UsageError

JSON = ".json"
OPTION = "--measured"
MOST_OFF = 15.0
"""Percent of mean error beyond which figures are told not to fit: nobody should size anything by them."""
MODEL = "model"
TERMS: dict[str, type[int] | type[str]] = {MODEL: str, **dict.fromkeys(LatencyShape._fields, int)}


class Misses(NamedTuple):
    """How far off the measurements of one model are, in percent: the magnitude of all errors on average, of those of
    decoding (None without any), and the largest."""

    measurements: int
    mean: float
    decoding: float | None
    largest: float

    def __str__(self) -> str:
        decoding = "" if self.decoding is None else f"of decoding {self.decoding:.1f} %, "
        return f"mean error {self.mean:.1f} %, {decoding}largest {self.largest:.1f} %"


class GpuCalibration(NamedTuple):
    """A fit, the figures before it, what it was fitted to, how far off that is, and the text of its hardware file."""

    before: GpuFigures
    fit: GpuFit
    measured: list[Measured]
    misses: list[Misses]
    text: str


def calibrated(files: list[str], hardware: str, model: str | None, date: str) -> GpuCalibration:
    """Fit to the measurements of some files, of `model` where they name none. Raise UsageError or DeviceError for files
    that can't be read or say too little, and for hardware of another kind."""
    gpus, named = _gpus(hardware), [_named(text) for text in files]
    if model and all(one.model for one in named):
        raise UsageError(f"--model is {model!r}, and each file names its own; allowed is one for files that name none.")
    of_models: dict[str, list[_File]] = {}
    for one in named:
        of_models.setdefault(one.model or model or Scenario().model, []).append(one)
    measured = [_measured(gpus, model, files) for model, files in of_models.items()]
    found = fit(*measured)
    misses = list(map(_misses, measured, found.errors))
    to = " and ".join(
        f"{off.measurements} measurements of {', '.join(one.path.name for one in files)} with {model} ({off})"
        for off, (model, files) in zip(misses, of_models.items(), strict=True)
    )
    how = (
        f"{to}, on {date} by `foreserve calibrate {OPTION}`"
        f"{', so that they do not fit' if any(off.mean > MOST_OFF for off in misses) else ''}"
        f"{', and faster than the data sheet allows' if found.at_peak else ''}"
    )
    base = Path(hardware) if is_file(hardware) else FOLDER / f"{hardware}.toml"
    return GpuCalibration(figures_of(measured[0].setup), found, measured, misses, hardware_text(base, found, how))


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
        (name, f"{before:.3g}", f"kept: {fitted.kept[name]}" if name in fitted.kept else f"{after:.3g}")
        for name, before, after in zip(GpuFigures._fields, found.before, fitted.figures, strict=True)
    ]
    console.print(Table(("figure", "before", "fitted"), figures, words=(0,)))
    for one, errors, off in zip(found.measured, fitted.errors, found.misses, strict=True):
        rows = [_row(each, error) for each, error in zip(one.measurements, errors, strict=True)]
        console.print(Table(("measurement", "batch", "measured, ms", "predicted", "error"), rows, words=(0,)))
        console.print(f"{one.setup.target}: {off}, of {off.measurements} measurements.")
    for sentence in _doubts(found):
        console.print(sentence)


def _row(one: Measurement, error: float) -> tuple[str, ...]:
    measured_ms, predicted_ms = (f"{1e3 * seconds:.2f}" for seconds in (one.seconds, one.seconds * (1 + error)))
    return one.where, f"{one.batch}", measured_ms, predicted_ms, f"{error:+.1%}"


def _doubts(found: GpuCalibration) -> Iterator[str]:
    """Yield why nobody should size anything by the figures."""
    if found.fit.at_peak:
        peaks = " and ".join(f"{name} is 1 (of {PEAKS[name]})" for name in found.fit.at_peak)
        yield (
            f"{peaks}: what was measured is as fast as the data sheet's peak, or faster, which no engine is. Is it "
            "this hardware that was measured, and the model in the same bits?"
        )
    for one, off in zip(found.measured, found.misses, strict=True):
        if off.mean > MOST_OFF:
            yield (
                f"The figures do not fit what was measured of {one.setup.target}: do not size anything by them. Is it "
                "the model and the hardware that were measured, in the same bits, and are the times in seconds?"
            )


def _misses(measured: Measured, errors: tuple[float, ...]) -> Misses:
    off = [100 * abs(error) for error in errors]
    decoding = [each for each, one in zip(off, measured.measurements, strict=True) if one.decodes]
    return Misses(len(off), fmean(off), fmean(decoding) if decoding else None, max(off))


def _gpus(hardware: str) -> Gpu:
    found = load_hardware(hardware)
    if not isinstance(found, Gpu):
        raise UsageError(f"{OPTION} fits GPUs, and {hardware} is of the kind {found.kind}; allowed is {KIND}.")
    return found


class _File(NamedTuple):
    """A file, the model whose times it has ("" if it isn't said), and what a latency benchmark ran."""

    path: Path
    model: str
    shape: LatencyShape | None

    def read(self) -> list[Measurement]:
        if self.path.suffix == JSON:
            return read_results(self.path, self.shape)
        return read_step_table(self.path)


def _named(text: str) -> _File:
    """Return what `FILE`, `FILE: model=NAME` or `FILE: batch=8, input=1024, output=128` names, or one with all four."""
    name, colon, terms = text.partition(":")
    values = parse_terms(terms, TERMS, OPTION)
    model, given = str(values.pop(MODEL, "")), [int(values.get(name, 0)) for name in LatencyShape._fields]
    if not colon or (model and not values):
        return _File(Path(name), model, None)
    if min(given) < 1 or not name.endswith(JSON):
        terms = ", ".join(f"{name}=..." for name in LatencyShape._fields)
        raise UsageError(
            f"{OPTION} has {text!r}; allowed is a latency benchmark's FILE{JSON}: {terms}, each from 1 on, and of any "
            f"file {MODEL}=..., the model that was measured."
        )
    return _File(Path(name), model, LatencyShape(*given))


def _measured(gpus: Gpu, model: str, files: list[_File]) -> Measured:
    """Return what some files say of a model. Refuse what the emulated GPU can't hold: it would be another model, or in
    other bits, than was measured."""
    setup = gpu.Device.setup_of(model, gpus, load_model(model))
    measurements, device = [each for one in files for each in one.read()], gpu.Device(setup)
    for one in measurements:
        if one.batch * one.longest > device.kv_capacity_tokens or one.longest > device.max_context_tokens:
            raise DeviceError(
                f"{one.where}: {one.batch} sequences of {one.longest} tokens are more than {model} has room for on "
                f"this hardware; allowed are {device.kv_capacity_tokens} tokens in all, and "
                f"{device.max_context_tokens} of one. Is it the model that was measured, in the same bits?"
            )
    return Measured(setup, measurements)

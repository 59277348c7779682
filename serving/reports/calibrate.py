"""`foreserve calibrate`: fits what no paper gives to the cells that one does, and writes it down."""

from datetime import date
from pathlib import Path

from rich.console import Console

from device_model.specs.spec_file import SPECS
from device_model.validation.calibration import calibrate
from device_model.validation.calibration_file import write_calibration
from device_model.validation.errors import errors_of, predicted
from device_model.validation.table3 import TABLE3, read_cells
from serving.process.output_folder import make_folder
from serving.usage_error import UsageError


def run(reference: Path | None, folder: Path | None, today: str | None, progress: Console) -> None:
    """Fit, write and say how well it fits."""
    source = reference or TABLE3
    cells = read_cells(source)
    given = sum(cell.given for cell in cells)
    if not given:
        raise UsageError(f"{source}: No cell has a speedup; a calibration needs some to fit to.")
    target, when = folder or SPECS / "calibration", _checked_date(today)
    make_folder("--out", target)
    progress.print(f"Fitting to {given} cells of {source.name}: some minutes ...")
    fit = calibrate(cells)
    for path in write_calibration(fit, cells, source.name, when, target):
        progress.print(f"Written: {path}")
    ar, sd = errors_of(predicted(cell, fit.setup(cell)) for cell in cells)
    progress.print(f"phi_ar: mean {ar.mape:.2f} %, p90 {ar.p90:.2f} %, largest {ar.largest:.2f} %")
    progress.print(f"phi_sd: mean {sd.mape:.2f} %, p90 {sd.p90:.2f} %, largest {sd.largest:.2f} %")


def _checked_date(text: str | None) -> str:
    """Today's date, unless another is named."""
    try:
        return (date.fromisoformat(text) if text else date.today()).isoformat()
    except ValueError:
        raise UsageError(f"--date is {text!r}; allowed is a date as YYYY-MM-DD.") from None

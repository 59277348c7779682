"""`foreserve calibrate`: fits what no paper gives to the cells that one does, and writes it down."""

from datetime import date
from pathlib import Path

from rich.console import Console

from device_model.specs.law import Law
from device_model.specs.spec_file import CALIBRATION
from device_model.validation.calibration import calibrate, reached
from device_model.validation.calibration_file import write_calibration
from device_model.validation.cells import predicted
from device_model.validation.errors import errors_of
from device_model.validation.table3 import TABLE3, read_cells
from serving.process.output_folder import make_folder
from serving.usage_error import UsageError


def run(law: Law, reference: Path | None, folder: Path | None, today: str | None, progress: Console) -> None:
    """Fit under a law, write and say how well it fits."""
    source = reference or TABLE3
    cells = read_cells(source)
    given = [cell for cell in cells if cell.given]
    if not given:
        raise UsageError(f"{source}: No cell has a speedup; a calibration needs some to fit to.")
    target, when = folder or CALIBRATION, checked_date(today)
    make_folder("--out", target)
    progress.print(f"Fitting to {len(given)} cells of {source.name}, under the law {law}: some minutes ...")
    fit = calibrate(cells, law)
    for path in write_calibration(fit, cells, source.name, when, target):
        progress.print(f"Written: {path}")
    fitted_on = reached(given, fit)
    ar, sd = errors_of(predicted(cell, fit.setup(cell)) for cell in fitted_on)
    if len(fitted_on) < len(given):
        progress.print(f"Not fitted to: {len(given) - len(fitted_on)} cells that no cache of their size reaches")
    progress.print(f"phi_ar: mean {ar.mape:.2f} %, p90 {ar.p90:.2f} %, largest {ar.largest:.2f} %")
    progress.print(f"phi_sd: mean {sd.mape:.2f} %, p90 {sd.p90:.2f} %, largest {sd.largest:.2f} %")


def checked_date(text: str | None) -> str:
    """Return today's date, unless another is named. Raise UsageError for no date."""
    try:
        return (date.fromisoformat(text) if text else date.today()).isoformat()
    except ValueError:
        raise UsageError(f"--date is {text!r}; allowed is a date as YYYY-MM-DD.") from None

"""`foreserve validate --cross-validate`: how far off predictions are of what they were not fitted to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from device_model.specs.law import Law
from device_model.validation.cross_validation import LeftOut, cross_validate
from device_model.validation.table3 import TABLE3, read_cells
from serving.presentation.table import Table
from serving.usage_error import UsageError


class CrossValidation(NamedTuple):
    """Errors of what is left out of a law's fits."""

    law: Law
    folds: int
    rows: Sequence[LeftOut]


def cross_validated(reference: Path | None, law: Law, folds: int, progress: Console) -> CrossValidation:
    """Return the errors of what is left out, and tell of each fit. Raise UsageError for folds that are not possible."""
    cells = read_cells(reference or TABLE3)
    try:
        rows = cross_validate(cells, law, folds, lambda what: progress.print(f"Fitting {what}, law {law} ..."))
    except ValueError as error:
        raise UsageError(f"--cross-validate: {error}.") from None
    return CrossValidation(law, folds, rows)


def to_json(found: CrossValidation) -> dict[str, Any]:
    """Return the law, the folds, and a row for each that was left out."""
    rows = [row._asdict() | {"phi_ar": row.phi_ar._asdict(), "phi_sd": row.phi_sd._asdict()} for row in found.rows]
    return {"law": found.law, "folds": found.folds, "left_out": rows}


def show(found: CrossValidation, console: Console) -> None:
    """Print a table."""
    lines = []
    for row in found.rows:
        errors = [f"{value:.1f}" for of in (row.phi_ar, row.phi_sd) for value in (of.mape, of.p90, of.largest)]
        lines.append([row.by, row.name, row.figures, str(row.phi_ar.cells), *errors])
    heads = [f"{mode} {what}" for mode in ("AR", "SD") for what in ("mean %", "p90", "max")]
    title = f"Cells left out of the fit, {found.folds} folds, law {found.law}"
    console.print(Table(["left out", "", "figures", "n", *heads], lines, title, words=(0, 1, 2)))

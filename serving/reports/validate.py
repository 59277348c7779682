"""`foreserve validate`: what the device model predicts, beside what the papers print."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from device_model.validation.cells import setup_of
from device_model.validation.errors import CellPrediction, Errors, errors_of, predicted
from device_model.validation.headlines import Headline, HeadlinePoint, headlines, points
from device_model.validation.papers.elmoe3d import figures_from
from device_model.validation.table3 import TABLE3, Cell, read_cells
from serving.presentation.table import Table
from serving.reports.published_figures import figures_json
from serving.usage_error import UsageError

# Relative errors that are explained one by one.
LARGE = 0.2


class Validation:
    """All predictions, computed once."""

    def __init__(self, reference: Path | None) -> None:
        cells = read_cells(reference or TABLE3)
        if not cells:
            raise UsageError(f"{reference} has no cell; a validation needs at least one row.")
        self.rows = [predicted(cell, setup_of(cell)) for cell in cells]
        self.points: list[HeadlinePoint] = points()
        self.headlines: list[Headline] = headlines(self.rows, self.points)

    def errors(self) -> list[tuple[str, str, Errors, Errors]]:
        """By model and scheme, by model, by scheme, and of all: (model, scheme, of phi_ar, of phi_sd)."""
        targets = list(dict.fromkeys(row.cell.target for row in self.rows))
        drafts = list(dict.fromkeys(row.cell.draft for row in self.rows))
        groups = [(target, draft) for target in [*targets, "all"] for draft in [*drafts, "all"]]
        return [(*group, *errors_of(filter(partial(_in, *group), self.rows))) for group in groups]


def draw(validation: Validation, folder: Path) -> list[Path]:
    """Draw the predictions in a folder, as PNG files; return their paths. Raise UsageError if it can't be made."""
    from serving.reports.validate_plots import draw

    return draw(validation.rows, validation.points, folder)


def to_json(validation: Validation) -> dict[str, Any]:
    """`cells`, `errors`, `headlines`, and all of them as `figures`."""
    return {
        "cells": [_cell(row) for row in validation.rows],
        "errors": [
            {"target": target, "draft": draft, "phi_ar": ar._asdict(), "phi_sd": sd._asdict()}
            for target, draft, ar, sd in validation.errors()
        ],
        "headlines": [headline._asdict() for headline in validation.headlines],
        "figures": figures_json(figures_from(validation.rows, validation.headlines)),
    }


def _cell(row: CellPrediction) -> dict[str, Any]:
    cell = row.cell
    return {
        "hb_gb": int(cell.hb_gb) if cell.hb_gb.is_integer() else cell.hb_gb,
        "target": cell.target,
        "draft": cell.draft,
        "batch": cell.batch,
        "alpha": cell.alpha,
        "phi_ar": round(row.phi_ar, 4),
        "phi_sd": round(row.phi_sd, 4),
        "phi_ar_ref": cell.phi_ar,
        "phi_sd_ref": cell.phi_sd,
    }


def _in(target: str, draft: str, row: CellPrediction) -> bool:
    return target in ("all", row.cell.target) and draft in ("all", row.cell.draft)


def show(validation: Validation, console: Console) -> None:
    """Print the predictions as tables."""
    for table in (_cells(validation), _summary(validation), _headlines(validation)):
        console.print(table)
        console.print()
    for line in resisting(validation.rows):
        console.print(line, highlight=False)


def _cells(validation: Validation) -> Table:
    rows = []
    for row in validation.rows:
        c = row.cell
        speedups = (*_beside(row.phi_ar, c.phi_ar), *_beside(row.phi_sd, c.phi_sd))
        rows.append([f"{c.hb_gb:g}", c.target, c.draft, str(c.batch), f"{c.alpha:.2f}", *speedups])
    heads = ["HB", "target", "draft", "batch", "alpha", "phi_ar", "paper", "off", "phi_sd", "paper", "off"]
    return Table(heads, rows, words=(1, 2))


def _summary(validation: Validation) -> Table:
    rows = []
    for target, draft, *errors in validation.errors():
        off = [text for e in errors for text in (f"{e.mape:.1f}", f"{e.p90:.1f}", f"{e.largest:.1f}", str(e.cells))]
        rows.append([target, draft, *off])
    heads = [f"{mode} {what}" for mode in ("AR", "SD") for what in ("mean %", "p90", "max", "n")]
    return Table(["target", "draft", *heads], rows, words=(0, 1))


def _headlines(validation: Validation) -> Table:
    rows = [[each.figure, *_beside(each.value, each.reference), each.how] for each in validation.headlines]
    return Table(["headline", "predicted", "paper", "off", "how"], rows, words=(0, 4))


def _beside(value: float, reference: float | None) -> tuple[str, str, str]:
    if reference is None:
        return f"{value:.2f}", "-", ""
    return f"{value:.2f}", f"{reference:.2f}", f"{100 * (value / reference - 1):+.1f} %"


def resisting(rows: Sequence[CellPrediction]) -> list[str]:
    """Return the published figures that the model misses by far, with the arithmetic."""
    lines = []
    for row in rows:
        for mode, value, reference in (("AR", row.phi_ar, row.cell.phi_ar), ("SD", row.phi_sd, row.cell.phi_sd)):
            if reference and abs(value / reference - 1) > LARGE:
                lines.append(_why(row.cell, mode, value, reference))
    return lines


def _why(cell: Cell, mode: str, value: float, reference: float) -> str:
    from device_model.validation.arithmetic import arithmetic

    return (
        f"{cell.hb_gb:g} GB, {cell.target}, {cell.draft}, batch {cell.batch}: {mode} {value:.2f} where the paper has "
        f"{reference:.2f}. {arithmetic(cell, mode, reference)}"
    )

"""Calibrations as TOML files: each figure with what it was fitted on, and at the head how well it fits."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from device_model.specs.law import Law
from device_model.validation.calibration import CHOSEN, DEVICE, Fit, reached
from device_model.validation.cells import predicted
from device_model.validation.errors import Errors, errors_of
from device_model.validation.table3 import Cell

MEASURED = "popularity_spread"


def write_calibration(fit: Fit, cells: Sequence[Cell], source: str, date: str, folder: Path) -> list[Path]:
    """Write one file for the device and one for each model fitted, in a folder of the law's name in `folder`; `source`
    names the file of cells."""
    folder = folder / fit.law
    folder.mkdir(parents=True, exist_ok=True)
    given = [cell for cell in cells if cell.given]
    fitted_on = reached(given, fit)
    figures: dict[str, dict[str, float]] = {DEVICE: asdict(fit.speculation)}
    figures |= {model: asdict(locality) for model, locality in fit.localities.items()}
    paths = []
    for name, values in figures.items():
        of_file = [cell for cell in fitted_on if name in (DEVICE, cell.model)]
        resisting = sum(name in (DEVICE, cell.model) for cell in given) - len(of_file)
        errors = errors_of(predicted(cell, fit.setup(cell)) for cell in of_file)
        head = [*_head(name, fit.law, date), *_cells(len(of_file), resisting, source), *_residuals(errors)]
        path = folder / f"{name}.toml"
        path.write_text(_text(head, values, f"Fitted on the {len(of_file)} cells named above"), encoding="utf-8")
        paths.append(path)
    return paths


def _head(name: str, law: Law, date: str) -> list[str]:
    what = "How ELMoE-3D drafts, for all models" if name == DEVICE else f"How {name} chooses among its experts"
    return [
        f"# {what}, under the law `{law}`: fitted, not published. Written",
        f"# by `foreserve calibrate --law {law}` on {date}; `device_model/specs/calibrated.py` says what",
        "# its figures mean.",
    ]


def _cells(fitted: int, resisting: int, source: str) -> list[str]:
    lines = [f"# Fitted on {fitted} cells of {source} whose speedups are given (all models and the device at once)."]
    if resisting:
        lines.append(f"# {resisting} more are above what any cache of their size reaches, and are not fitted to.")
    return lines


def _residuals(errors: tuple[Errors, Errors]) -> list[str]:
    return [
        f"# Residuals of {mode}: mean {error.mape:.2f} %, p90 {error.p90:.2f} %, largest {error.largest:.2f} %."
        for mode, error in zip(("phi_ar", "phi_sd"), errors, strict=True)
    ]


def _text(head: list[str], values: dict[str, float], fitted: str) -> str:
    body = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    sources = [f"{key} = {json.dumps(_source(key) or fitted)}" for key in values]
    return "\n".join([*head, "", *body, "", "[sources]", *sources]) + "\n"


def _source(key: str) -> str:
    if key == MEASURED:
        return "Fitted first, on those of these cells that have no cache (`cacheless.popularity_spreads`)"
    return "Chosen, not fitted: the cells say next to nothing about it (`calibration.CHOSEN`)" if key in CHOSEN else ""

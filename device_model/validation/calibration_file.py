"""Calibrations as TOML files: each figure with what it was fitted on, and at the head how well it fits."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from device_model.validation.calibration import CHOSEN, DEVICE, Fit
from device_model.validation.errors import Errors, errors_of, predicted
from device_model.validation.table3 import Cell


def write_calibration(fit: Fit, cells: Sequence[Cell], source: str, date: str, folder: Path) -> list[Path]:
    """Write one file for the device and one for each model fitted, in `folder`; `source` names the file of cells."""
    folder.mkdir(parents=True, exist_ok=True)
    given = [cell for cell in cells if cell.given]
    figures: dict[str, dict[str, float]] = {DEVICE: asdict(fit.speculation)}
    figures |= {model: asdict(locality) for model, locality in fit.localities.items()}
    paths = []
    for name, values in figures.items():
        of_file = [cell for cell in given if name in (DEVICE, cell.model)]
        rows = [predicted(cell, fit.setup(cell)) for cell in of_file]
        head = _head(name, len(of_file), source, date, errors_of(rows))
        path = folder / f"{name}.toml"
        path.write_text(_text(head, values, f"Fitted on the {len(of_file)} cells named above"), encoding="utf-8")
        paths.append(path)
    return paths


def _head(name: str, cells: int, source: str, date: str, errors: tuple[Errors, Errors]) -> list[str]:
    what = "How ELMoE-3D drafts, for all models" if name == DEVICE else f"How {name} chooses among its experts"
    lines = [
        f"# {what}: fitted, not published. Written by `foreserve calibrate` on {date};",
        "# `device_model/specs/calibrated.py` says what the figures mean.",
        f"# Fitted on {cells} cells of {source} whose speedups are given (all models and the device at once).",
    ]
    for mode, error in zip(("phi_ar", "phi_sd"), errors, strict=True):
        lines.append(
            f"# Residuals of {mode}: mean {error.mape:.2f} %, p90 {error.p90:.2f} %, largest {error.largest:.2f} %."
        )
    return lines


def _text(head: list[str], values: dict[str, float], fitted: str) -> str:
    body = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    sources = [f"{key} = {json.dumps(_chosen(key) or fitted)}" for key in values]
    return "\n".join([*head, "", *body, "", "[sources]", *sources]) + "\n"


def _chosen(key: str) -> str:
    return "Chosen, not fitted: the cells say next to nothing about it (`calibration.CHOSEN`)" if key in CHOSEN else ""

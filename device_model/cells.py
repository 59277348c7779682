"""Cells of ELMoE-3D's Table 3: what is published, and how it is predicted."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from device_model.load import load_setup, make_device
from device_model.setup import Setup
from device_model.spec import SpecError
from device_model.spec_file import SPECS
from device_model.step import DraftShape, StepPlan
from device_model.tiered import TieredDevice

TABLE3 = SPECS / "reference" / "elmoe_table3.csv"
MOST = 4096  # of anything in a cell
CONTEXT = 1024  # "We use 1k sequence length for baseline" (7)
COLUMNS = ("hb_gb", "target", "draft", "batch", "alpha", "phi_ar", "phi_sd")
SCHEMES = {"EAGLE3": "eagle", "SLM-SD": "slm", "Quant-SD": "quant", "Elastic-SD": "elastic", "Random-SD": "random"}


@dataclass(frozen=True, slots=True)
class Cell:
    """Speedups over the xPU at the same batch, in AR and SD mode; None where they are not known."""

    hb_gb: float
    target: str
    draft: str
    batch: int
    alpha: float
    phi_ar: float | None = None
    phi_sd: float | None = None

    @property
    def model(self) -> str:
        """The target's spec file."""
        return self.target.lower()

    @property
    def hardware(self) -> str:
        return f"elmoe3d-{self.hb_gb:g}gb"

    @property
    def given(self) -> bool:
        """Whether a speedup of it is known."""
        return self.phi_ar is not None or self.phi_sd is not None

    @property
    def setup(self) -> Setup:
        """What its device is made from, as calibrated. Raises SpecError."""
        return _setup(self.hardware, self.model)


@lru_cache
def _setup(hardware: str, model: str) -> Setup:
    """Read once: a table has many cells of each."""
    return load_setup(hardware, model)


def read_cells(path: Path = TABLE3) -> list[Cell]:
    """The cells of a file with the columns of Table 3. SpecError names file, line and column of what is wrong."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
            if missing:
                raise SpecError(f"{path}, line 1: no column {missing[0]}; required are {', '.join(COLUMNS)}.")
            return [_cell(row, f"{path}, line {rows.line_num}") for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError(f"{path} can't be read; allowed is a CSV file in UTF-8: {error}.") from None


def _cell(row: dict[str, str | None], where: str) -> Cell:
    draft = row["draft"] or ""
    if draft not in SCHEMES:
        raise SpecError(f"{where}: draft is {draft!r}; allowed are {', '.join(SCHEMES)}.")
    return Cell(
        hb_gb=_number(row, "hb_gb", where, lambda v: 0 < v <= MOST),
        target=row["target"] or "",
        draft=draft,
        batch=int(_number(row, "batch", where, lambda v: 1 <= v <= MOST and v == int(v))),
        alpha=_number(row, "alpha", where, lambda v: 0 <= v <= 1),
        phi_ar=_number(row, "phi_ar", where, lambda v: 0 < v <= MOST) if row["phi_ar"] else None,
        phi_sd=_number(row, "phi_sd", where, lambda v: 0 < v <= MOST) if row["phi_sd"] else None,
    )


def _number(row: dict[str, str | None], column: str, where: str, accepts: Callable[[float], bool]) -> float:
    text = row[column] or ""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not accepts(value):
        raise SpecError(f"{where}: {column} is {text!r}; allowed is a number in its range, or nothing for a speedup.")
    return value


def predict(cell: Cell, setup: Setup) -> tuple[float, float]:
    """The speedups in AR and SD mode of a cell under `setup`, which is that of its hardware and target.

    phi_sd = T_xPU (1 + accepted) / T_step, with alpha as accepted draft tokens / depth, and every sequence one bonus
    token (ELMoE-3D, 2.2).
    """
    draft, shape = drafting_device(cell, setup)
    plan = batch_plan(cell.batch)
    base_s = float(make_device("xpu", setup).probe(plan).latency_s[0])
    ar_s = float(draft.probe(plan).latency_s[0])
    sd_s = float(draft.probe(StepPlan(plan.new_tokens, plan.context, shape)).latency_s[0])
    return base_s / ar_s, base_s / sd_s * (1 + cell.alpha * shape.depth)


def drafting_device(cell: Cell, setup: Setup) -> tuple[TieredDevice, DraftShape]:
    """ELMoE-3D with the draft scheme of a cell, and the shape of its drafts."""
    device = make_device("elmoe3d", setup, SCHEMES[cell.draft])
    assert isinstance(device, TieredDevice) and device.draft is not None
    return device, device.draft.shape


@lru_cache(maxsize=64)
def batch_plan(batch: int) -> StepPlan:
    """A decode step of so many sequences at the context of the table."""
    return StepPlan(np.ones(batch, dtype=np.int64), np.full(batch, CONTEXT, dtype=np.int64))

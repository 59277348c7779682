"""Cells of ELMoE-3D's Table 3: what is published, and the setting that it is published for."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from device_model.specs.spec import SpecError

TABLE3 = Path(__file__).with_name("elmoe_table3.csv")
MOST = 4096  # of anything in a cell
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
        """Tell whether a speedup of it is known."""
        return self.phi_ar is not None or self.phi_sd is not None


def read_cells(path: Path = TABLE3) -> list[Cell]:
    """Return the cells of a file with the columns of Table 3. Raise SpecError, with file, line and column of what is
    wrong.
    """
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

"""Published results of Stratum, by metric, configuration and model."""

import csv
from pathlib import Path
from typing import NamedTuple

from device_model.specs.spec import SpecError
from device_model.validation.figures import ROLES

RESULTS = Path(__file__).with_name("results.csv")


class Result(NamedTuple):
    """A line of the file; `value` is None where the paper prints no number."""

    metric: str
    configuration: str
    model: str
    value: float | None
    unit: str
    where: str
    note: str
    role: str


def read_results(path: Path = RESULTS) -> list[Result]:
    """Return all published results, in order. Raise SpecError, with file and line of what is wrong."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        return [_result(row, f"{path}, line {rows.line_num}") for row in rows]


def _result(row: dict[str, str], where: str) -> Result:
    if row["role"] not in ROLES:
        raise SpecError(f"{where}: role is {row['role']!r}; allowed are {', '.join(ROLES)}.")
    try:
        value = float(row["value"]) if row["value"] else None
    except ValueError:
        raise SpecError(f"{where}: value is {row['value']!r}; allowed is a number, or nothing.") from None
    return Result(
        row["metric"], row["configuration"], row["model"], value, row["unit"], row["where"], row["note"], row["role"]
    )

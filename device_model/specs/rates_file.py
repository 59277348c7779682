"""Files of acceptance rates: CSV with `#` comments before their columns."""

import csv
from collections.abc import Callable
from pathlib import Path

from device_model.specs.spec import SpecError

Row = dict[str, str]


def read_rows(path: Path, columns: tuple[str, ...]) -> list[Row]:
    """Return the rows of a file with just `columns`. Raise SpecError, which names the file and what is wrong."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            if tuple(rows.fieldnames or ()) != columns:
                raise SpecError(f"{path}: its columns are {rows.fieldnames}; required are {', '.join(columns)}.")
            return list(rows)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError(f"{path} can't be read; allowed is a CSV file in UTF-8: {error}.") from None


def number(row: Row, column: str, where: str, accepts: Callable[[float], bool]) -> float:
    """Return the number in a column. Raise SpecError, which names `where`, if it is none that `accepts` takes."""
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = float("nan")
    if not accepts(value):
        raise SpecError(f"{where}: {column} is {row[column]!r}; allowed is a number in its range.")
    return value

"""Rows of figures as CSV, for other programs."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Return rows as CSV. The columns are those that any row has, in the order of their first appearance; `columns`
    come first, also where there is no row."""
    names = dict.fromkeys([*columns, *(name for row in rows for name in row)])
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path, columns: Sequence[str] = ()) -> None:
    """Write rows as CSV. Raise OSError."""
    path.write_text(csv_text(rows, columns), encoding="utf-8")

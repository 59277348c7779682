"""Columns of rows: the form in which data frames and plots take a table."""

from collections.abc import Iterable, Mapping
from typing import Any

Columns = dict[str, list[Any]]


def columns_of(rows: Iterable[Mapping[str, Any]]) -> Columns:
    """Return a list for each name that any row has, all as long as there are rows; None where a row has none."""
    known = list(rows)
    names = dict.fromkeys(name for row in known for name in row)
    return {name: [row.get(name) for row in known] for name in names}

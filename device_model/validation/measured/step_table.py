"""Step table: a CSV file of steps that a user measured, one a line."""

import csv
import math
import re
from pathlib import Path

from device_model.specs.spec import SpecError
from device_model.validation.measured.measurement import Measurement, Passes

COLUMNS = ("batch", "context", "seconds")
NEW_TOKENS = "new_tokens"
"""A column that may be left out: tokens that each sequence computes in the step, 1 decoding, a prompt's in prefill."""

DIGITS = 18
# A step that is shorter, or takes longer, is no step that somebody measured.
SHORTEST_S, LONGEST_S = 1e-9, 1e6
# Characters of a wrong figure that an error repeats.
SHOWN = 40


def read_step_table(path: Path) -> list[Measurement]:
    """Return the steps of a file with the columns `batch`, `context` (tokens that each sequence has before the step)
    and `seconds`, and `new_tokens` if it has it. Raise SpecError, by file, line and column."""
    try:
        # Spreadsheets begin a file with a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} can't be read; allowed is a CSV file in UTF-8: {error}.") from None
    reader = csv.DictReader(text.splitlines())
    try:
        steps = _steps(reader, path)
    except csv.Error as error:
        raise SpecError(f"{path}, line {reader.line_num}: not valid CSV: {error}.") from None
    if not steps:
        raise SpecError(f"{path} has no line below its first; allowed is one for each step that was measured.")
    return steps


def _steps(reader: "csv.DictReader[str]", path: Path) -> list[Measurement]:
    for column in COLUMNS:
        if column not in (reader.fieldnames or ()):
            raise SpecError(
                f"{path}, line 1: no column {column}; required are {', '.join(COLUMNS)}, and {NEW_TOKENS} may be there."
            )
    names = [name for name in reader.fieldnames or () if name]
    if twice := [name for name in (*COLUMNS, NEW_TOKENS) if names.count(name) > 1]:
        raise SpecError(f"{path}, line 1: the column {twice[0]} is there more than once; allowed is once.")
    return [_step(row, f"{path}, line {reader.line_num}") for row in reader]


def _step(row: dict[str, str | None], where: str) -> Measurement:
    # As `csv` has those that no column names.
    if more := row.get(None):  # type: ignore[call-overload]
        columns = len(row) - 1
        raise SpecError(
            f"{where}: {columns + len(more)} fields, and there are {columns} columns; allowed is a field for each, and "
            "no comma within a number."
        )
    batch, context = _whole(row, "batch", 1, where), _whole(row, "context", 0, where)
    new_tokens = _whole(row, NEW_TOKENS, 1, where) if row.get(NEW_TOKENS) else 1
    return Measurement(where, batch, (Passes(new_tokens, context),), _seconds(row, where))


def _whole(row: dict[str, str | None], column: str, least: int, where: str) -> int:
    text = row[column] or ""
    if not (re.fullmatch(rf"\s*[0-9]{{1,{DIGITS}}}\s*", text) and int(text) >= least):
        allowed = f"a whole number from {least} on" + (f", of {DIGITS} digits at most" if len(text) > DIGITS else "")
        raise SpecError(f"{where}: {column} is {text[:SHOWN]!r}; allowed is {allowed}.")
    return int(text)


def _seconds(row: dict[str, str | None], where: str) -> float:
    text = row["seconds"] or ""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not SHORTEST_S <= seconds <= LONGEST_S:
        allowed = f"a number from {SHORTEST_S:g} to {LONGEST_S:g}"
        raise SpecError(f"{where}: seconds is {text[:SHOWN]!r}; allowed is {allowed}.")
    return seconds

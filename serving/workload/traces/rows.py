"""Common parts of the trace readers: the row that they make, and how they read lines, numbers and columns."""

import codecs
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from serving.workload.distributions import MOST as MOST_TOKENS
from serving.workload.table import WorkloadError

NO_TIME = float("nan")


class TraceRow(msgspec.Struct, frozen=True, array_like=True):
    """A request of a trace, or a conversation of several `turns`: tokens of what the user says and of the answer.

    `at_s` is in seconds from whenever the trace counts, NaN if it has no times. `hash_ids` name the blocks of
    `block_tokens` of the prompt: equal ones are equal. `topic`, `slo` and `key` are "" where the trace does not say.
    """

    line: int
    at_s: float
    turns: tuple[tuple[int, int], ...]
    hash_ids: tuple[int, ...] = ()
    block_tokens: int = 0
    topic: str = ""
    slo: str = ""
    key: str = ""


def bad(path: Path, line: int, sentence: str) -> WorkloadError:
    """Return the error for a row."""
    return WorkloadError(f"{path}, line {line}: {sentence}")


def unreadable(path: Path, error: Exception) -> WorkloadError:
    """Return the error for a whole file."""
    return WorkloadError(f"Cannot read the trace {path}: {error}.")


def tokens(value: Any, name: str, path: Path, line: int) -> int:
    """Return a length in tokens; none at all counts as 1. What has no whole numbers of its own may write 10.0."""
    try:
        count = int(value) if isinstance(value, str) and value.strip().isdigit() else int(float(value))
        if count != float(value) or not 0 <= count <= MOST_TOKENS or isinstance(value, bool):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        must = f"a whole number of tokens, at most {MOST_TOKENS:,}"
        raise bad(path, line, f"`{name}` is {value!r}: it must be {must}.") from None
    return max(1, count)


def seconds(value: Any, name: str, path: Path, line: int, unit_s: float = 1.0) -> float:
    """Parse an instant in units of `unit_s` seconds; return seconds. Raise `WorkloadError`."""
    try:
        found = float(value) * unit_s
        if not abs(found) < float("inf") or isinstance(value, bool):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise bad(path, line, f"`{name}` is {value!r}: it must be a number.") from None
    return found


def csv_rows(path: Path, wanted: Mapping[str, Sequence[str]], needed: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each row of a CSV file, in the order of `wanted`, "" for missing ones.
    `wanted` lists the names of each column; capitals, spaces and underscores are ignored."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            places, width = _places(header, wanted, needed, path), len(header)
            for fields in reader:
                if fields and len(fields) < width:
                    sentence = f"there are {len(fields)} columns, and the first line has {width}."
                    raise bad(path, reader.line_num, sentence)
                if fields:
                    yield reader.line_num, [fields[place] if place >= 0 else "" for place in places]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(path, error) from error


def _places(header: list[str], wanted: Mapping[str, Sequence[str]], needed: Sequence[str], path: Path) -> list[int]:
    found = {plain(name): place for place, name in enumerate(header)}
    places = [next((found[plain(name)] for name in names if plain(name) in found), -1) for names in wanted.values()]
    for place, (column, names) in zip(places, wanted.items(), strict=True):
        if place < 0 and column in needed:
            raise bad(path, 1, f"there is no column `{names[0]}`; there are {', '.join(header) or 'none'}.")
    return places


def plain(name: str) -> str:
    """Return a column's name without what differs between versions of a file."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file, each with its line."""
    decode = msgspec.json.Decoder().decode
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                if not line.strip():
                    continue
                try:
                    value = decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise bad(path, number, f"this is no JSON ({error}).") from error
                if not isinstance(value, dict):
                    raise bad(path, number, "this must be a JSON object, with a value for each column.")
                yield number, value
    except OSError as error:
        raise unreadable(path, error) from error


def hash_ids(value: Any, path: Path, line: int) -> tuple[int, ...]:
    """Return the ids of a prompt's blocks."""
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise bad(
            path, line, f"`hash_ids` is {json.dumps(value, default=str)[:60]}: it must be a list of whole numbers."
        )
    return tuple(value)

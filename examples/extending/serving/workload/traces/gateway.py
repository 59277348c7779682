"""A gateway's log: a JSON object a line, with `started` (a date and time), `prompt_tokens`, `completion_tokens`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from serving.workload.traces.rows import TraceRow, bad, json_rows, tokens

LENGTHS = ("prompt_tokens", "completion_tokens")


def read(path: Path) -> Iterator[TraceRow]:
    """Yield the rows of a trace."""
    for line, row in json_rows(path):
        prompt, output = (tokens(row.get(name), name, path, line) for name in LENGTHS)
        yield TraceRow(line, _seconds(row.get("started"), path, line), ((prompt, output),))


def _seconds(started: Any, path: Path, line: int) -> float:
    try:
        at = datetime.fromisoformat(started)
    except (TypeError, ValueError):
        sentence = f"`started` is {started!r}: it must be a date and a time, as 2026-01-31T18:15:46."
        raise bad(path, line, sentence) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

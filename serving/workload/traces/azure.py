"""Azure's LLM inference traces of 2023 and 2024: `TIMESTAMP,ContextTokens,GeneratedTokens`, where a timestamp is a date
and a time with up to 7 digits of a fraction, in 2024 with a zone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from serving.workload.traces.rows import TraceRow, bad, csv_rows, tokens

COLUMNS = {
    "timestamp": ("TIMESTAMP",),
    "prompt": ("ContextTokens",),
    "output": ("GeneratedTokens",),
}


def read(path: Path) -> Iterator[TraceRow]:
    """Yield the rows of a trace."""
    for line, (timestamp, prompt, output) in csv_rows(path, COLUMNS, list(COLUMNS)):
        turn = tokens(prompt, "ContextTokens", path, line), tokens(output, "GeneratedTokens", path, line)
        yield TraceRow(line, _seconds(timestamp, path, line), (turn,))


def _seconds(timestamp: str, path: Path, line: int) -> float:
    try:
        at = datetime.fromisoformat(timestamp.strip())
    except ValueError:
        sentence = f"`TIMESTAMP` is {timestamp!r}: it must be a date and a time, as 2023-11-16 18:15:46.6805900."
        raise bad(path, line, sentence) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

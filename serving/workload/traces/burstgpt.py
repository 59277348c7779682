"""BurstGPT: `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`, in seconds. A request without
response tokens failed, and is left out."""

from collections.abc import Iterator
from pathlib import Path

from serving.workload.traces.rows import TraceRow, csv_rows, seconds, tokens

COLUMNS = {
    "timestamp": ("Timestamp",),
    "prompt": ("Request tokens",),
    "output": ("Response tokens",),
}


def read(path: Path) -> Iterator[TraceRow]:
    """Yield the rows of a trace."""
    for line, (timestamp, prompt, output) in csv_rows(path, COLUMNS, list(COLUMNS)):
        at_s = seconds(timestamp, "Timestamp", path, line)
        turn = tokens(prompt, "Request tokens", path, line), tokens(output, "Response tokens", path, line)
        if float(output):
            yield TraceRow(line, at_s, (turn,))

"""Mooncake: a JSON object in each line with `timestamp` in milliseconds, `input_length`, `output_length` and
`hash_ids`, one for each block of 512 tokens of the prompt."""

from collections.abc import Iterator
from pathlib import Path

from serving.workload.traces.rows import TraceRow, hash_ids, json_rows, seconds, tokens

BLOCK_TOKENS, UNIT_S = 512, 1e-3


def read(path: Path, block_tokens: int = BLOCK_TOKENS, unit_s: float = UNIT_S) -> Iterator[TraceRow]:
    """Yield the rows of a trace."""
    for line, row in json_rows(path):
        at_s = seconds(row.get("timestamp"), "timestamp", path, line, unit_s)
        lengths = [tokens(row.get(name), name, path, line) for name in ("input_length", "output_length")]
        ids = hash_ids(row.get("hash_ids", []), path, line)
        yield TraceRow(line, at_s, ((lengths[0], lengths[1]),), ids, block_tokens)

"""Traces of a user's own, as CSV, JSONL or Parquet with the columns `prompt_tokens` and `output_tokens`, and optionally
`arrival_s`, `topic`, `slo`, `key`, and (not in CSV) `hash_ids`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from serving.topics.names import NAMES, unknown_topic
from serving.workload.traces.rows import (
    NO_TIME,
    TraceRow,
    bad,
    csv_rows,
    hash_ids,
    json_rows,
    seconds,
    tokens,
    unreadable,
)

NEEDED = ("prompt_tokens", "output_tokens")
OPTIONAL = ("arrival_s", "topic", "slo", "key")
BATCH = 1024


def read_csv(path: Path) -> Iterator[TraceRow]:
    """Yield the rows of a CSV file."""
    names = (*NEEDED, *OPTIONAL)
    for line, fields in csv_rows(path, {name: (name,) for name in names}, NEEDED):
        # Spaces beside a comma are no part of a name, as they are none of a number or of a column's.
        said = zip(names, map(str.strip, fields), strict=True)
        yield _row(path, line, {name: field for name, field in said if field}, 0)


def read_jsonl(path: Path, block_tokens: int) -> Iterator[TraceRow]:
    """Yield the rows of a JSONL file."""
    for line, fields in json_rows(path):
        yield _row(path, line, fields, block_tokens)


def read_parquet(path: Path, block_tokens: int) -> Iterator[TraceRow]:
    """Yield the rows of a table; a "line" is a row, from 1 on."""
    for line, fields in enumerate(_table(path), 1):
        yield _row(path, line, fields, block_tokens)


def _row(path: Path, line: int, fields: dict[str, Any], block_tokens: int) -> TraceRow:
    at, ids = fields.get("arrival_s"), fields.get("hash_ids")
    topic, *others = (str(fields.get(name) or "") for name in ("topic", "slo", "key"))
    if topic and topic not in NAMES:
        raise bad(path, line, unknown_topic(topic))
    return TraceRow(
        line,
        NO_TIME if at is None else seconds(at, "arrival_s", path, line),
        ((_tokens(path, line, fields, NEEDED[0]), _tokens(path, line, fields, NEEDED[1])),),
        () if ids is None else hash_ids(ids, path, line),
        block_tokens,
        topic,
        *others,
    )


def _tokens(path: Path, line: int, fields: dict[str, Any], name: str) -> int:
    return tokens(fields.get(name), name, path, line)


def _table(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as raw, pq.ParquetFile(raw) as file:
            wanted = [name for name in (*NEEDED, *OPTIONAL, "hash_ids") if name in file.schema_arrow.names]
            for batch in file.iter_batches(BATCH, columns=wanted, use_threads=False):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error

"""Step logs as tables in Parquet: a column for each field of `StepRecord`, in groups of rows.

Energy and traffic are structs of their components. A table can be read once it is closed, as it is when the server
ends; a server that is killed leaves none (lines of JSON it would leave).
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from device_model.step import Energy, Traffic
from serving.telemetry.log_file import told_once
from serving.types import StepRecord

# Rows in a group: the most that are held in memory, and some milliseconds to write.
GROUP = 1024
COMPONENTS = {"energy_j": Energy._fields, "traffic_bytes": Traffic._fields}
TYPES = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    list[int]: pa.list_(pa.int64()),
    list[float]: pa.list_(pa.float64()),
}


def type_of(field: msgspec.structs.FieldInfo) -> Any:
    """Return the type of a field's column."""
    if field.name in COMPONENTS:
        return pa.struct([(component, pa.float64()) for component in COMPONENTS[field.name]])
    return TYPES[field.type]


SCHEMA = pa.schema([(field.name, type_of(field)) for field in msgspec.structs.fields(StepRecord)])


class StepTable:
    """Writes records to a file, in a thread of its own: a group takes milliseconds, and requests should not wait."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = pq.ParquetWriter(path, SCHEMA)
        self._over = False
        self._waiting: list[StepRecord] = []
        self._pool = ThreadPoolExecutor(1, "step-table")
        self._writing: Future[None] | None = None

    def write(self, record: StepRecord) -> None:
        """Add a step."""
        if self._over:
            return
        self._waiting.append(record)
        if len(self._waiting) == GROUP:
            self._hand_over()

    def close(self) -> None:
        """Finish the file, which can be read from then on."""
        if self._waiting and not self._over:
            self._hand_over()
        try:
            self._check_written()
            self._writer.close()
        except OSError as error:
            self._end(error)
        self._pool.shutdown()

    def _check_written(self) -> None:
        """Wait for the group under way. Raise OSError if it could not be written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _end(self, error: OSError) -> None:
        if not self._over:
            self._over = True
            self._waiting = []
            told_once("--step-log", self._path, error, ", and a table without its end cannot be read")

    def _hand_over(self) -> None:
        try:
            self._check_written()  # One group at a time, however slow the disk is.
        except OSError as error:
            self._end(error)
            return
        self._writing = self._pool.submit(self._write_group, self._waiting)
        self._waiting = []

    def _write_group(self, records: list[StepRecord]) -> None:
        columns = [column(name, [getattr(record, name) for record in records]) for name in SCHEMA.names]
        self._writer.write_table(pa.table(columns, schema=SCHEMA))


def column(name: str, values: list[Any]) -> Any:
    """Return the values of a field, as its column has them."""
    if name in COMPONENTS:
        parts = [pa.array(part, pa.float64()) for part in zip(*values, strict=True)]
        return pa.StructArray.from_arrays(parts, COMPONENTS[name])
    return pa.array(values, SCHEMA.field(name).type)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, as fields by name; raise OSError if it is none."""
    try:
        with path.open("rb") as raw, pq.ParquetFile(raw) as file:
            for batch in file.iter_batches(GROUP, use_threads=False):
                for row in batch.to_pylist():
                    for name in COMPONENTS:
                        if isinstance(row.get(name), dict):
                            row[name] = tuple(row[name].values())
                    yield row
    except pa.ArrowException as error:
        raise OSError(f"it is no Parquet that was written to its end ({str(error).partition('.')[0]})") from error

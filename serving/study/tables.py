"""Tables of any length in little memory: rows are written as Parquet, a few thousand at a time."""

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 16_384
KINDS = {"float": pa.float64(), "int": pa.int64(), "str": pa.string(), "bool": pa.bool_()}


class Rows:
    """A Parquet file in memory that grows row by row: compressed, some 60 bytes for each request of a study."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        """`columns`: the kind of each by its name."""
        self._schema = pa.schema([(name, KINDS[kind]) for name, kind in columns.items()])
        self._file = io.BytesIO()
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")
        self._rows: list[tuple[Any, ...]] = []

    def add(self, row: tuple[Any, ...]) -> None:
        """Add a row, in the order of the columns."""
        self._rows.append(row)
        if len(self._rows) >= ROWS:
            self._write()

    def close(self) -> bytes:
        """Write the last rows; return the file."""
        self._write()
        self._writer.close()
        return self._file.getvalue()

    def _write(self) -> None:
        if self._rows:
            columns = zip(self._rows and zip(*self._rows, strict=True), self._schema, strict=True)
            arrays = [pa.array(values, field.type) for values, field in columns]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
            self._rows.clear()


def column(file: bytes, name: str) -> Any:
    """Return one column of a Parquet file as a numpy array."""
    return table(file, [name])[name].to_numpy()


def table(file: bytes, columns: list[str] | None = None) -> Any:
    """Return a Parquet file, or some of its columns, as an Arrow table."""
    # By this thread alone: one of Arrow's would still hold the file when Python ends, and end the process by SIGABRT.
    with pq.ParquetFile(pa.BufferReader(file)) as parquet:
        return parquet.read(columns, use_threads=False)

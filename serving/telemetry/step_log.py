"""A log of steps, with the fields of `StepRecord`: a line of JSON for each, or a table in Parquet."""

import logging
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol

import msgspec

from serving.cluster.observer import EdgeObserver
from serving.telemetry.log_file import LogFile
from serving.telemetry.named_struct import named_struct
from serving.types import StepRecord
from serving.usage_error import UsageError

log = logging.getLogger("foreserve")

PARQUET = ".parquet"
OPTION = "--step-log"


Line = named_struct(StepRecord)


class StepLogError(UsageError):
    """A file that is no step log; the message is a sentence that names it, and the line."""


class Writer(Protocol):
    """Takes records, until it is closed."""

    def write(self, record: StepRecord) -> None: ...

    def close(self) -> None: ...


class StepLog(EdgeObserver):
    """Writes what devices do to a file, for as long as its context lasts. Raise `UsageError` if it can't be had."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> "StepLog":
        self._writer = writer_to(self._path)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.close()

    def on_step(self, record: StepRecord) -> None:
        self._writer.write(record)


class StepLines:
    """A line of JSON for each."""

    def __init__(self, path: Path) -> None:
        self._file = LogFile(path, OPTION)
        self._encoder = msgspec.json.Encoder()

    def write(self, record: StepRecord) -> None:
        self._file.write(self._encoder.encode(msgspec.structs.asdict(record)) + b"\n")

    def close(self) -> None:
        self._file.close()


def writer_to(path: Path) -> Writer:
    """Return the writer for the kind of file that `path` is named as. Raise `UsageError`."""
    if path.suffix != PARQUET:
        return StepLines(path)
    if path.is_fifo():
        raise UsageError(f"{OPTION} {path} is a pipe: a table is written to a file.")
    from serving.telemetry.step_table import StepTable

    try:
        return StepTable(path)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{OPTION} {path} cannot be written: {why}.") from error


def read_step_log(path: Path) -> list[StepRecord]:
    """Read the records in a log, in the order in which they reached the edge. Raise `StepLogError`."""
    return list(steps_of(path))


def steps_of(path: Path) -> Iterator[StepRecord]:
    """Yield the records in a log, one after the other, whatever its length. Raise `StepLogError`."""
    try:
        if path.suffix == PARQUET:
            from serving.telemetry.step_table import rows_of

            lines = enumerate(rows_of(path), 1)
            yield from (_record(path, f"row {number}", msgspec.convert, row, Line) for number, row in lines)
        else:
            with path.open("rb") as file:
                yield from _lines(path, file)
    except OSError as error:
        raise StepLogError(f"{path} cannot be read: {error.strerror or error}.") from error


def _lines(path: Path, file: BinaryIO) -> Iterator[StepRecord]:
    """Yield the records of a log, except a last line cut short (copied while written, or the disk was full)."""
    decode = msgspec.json.Decoder(Line).decode
    for number, line in enumerate(file, 1):
        try:
            yield _record(path, f"line {number}", decode, line)
        except StepLogError:
            if number == 1 or line.endswith(b"\n"):
                raise
            log.warning("%s ends in the middle of line %d, which is left out.", path, number)


def _record(path: Path, where: str, decode: Any, *what: Any) -> StepRecord:
    try:
        return StepRecord(**msgspec.structs.asdict(decode(*what)))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = str(error).partition(" (")[0].removesuffix(".")
        raise StepLogError(f"{path}, {where}, is no step as `--step-log` writes them: {reason}.") from None

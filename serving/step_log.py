"""A log of steps: one line of JSON for each, with the fields of `StepRecord`."""

from pathlib import Path
from types import TracebackType

import msgspec

from serving.flow import StepRecord
from serving.scenario import ScenarioError


class StepLog:
    """Writes step records to a file, for as long as its context lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._encoder = msgspec.json.Encoder()

    def __enter__(self) -> "StepLog":
        try:
            # Unbuffered, so that whoever reads along sees what has been.
            self._file = self._path.open("wb", buffering=0)
        except OSError as error:
            raise ScenarioError(f"--step-log {self._path} cannot be written: {error.strerror}.") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def __call__(self, record: StepRecord) -> None:
        self._file.write(self._encoder.encode(msgspec.structs.asdict(record)) + b"\n")


def read_step_log(path: Path) -> list[StepRecord]:
    """The records in a log, in the order in which they reached the edge."""
    with path.open("rb") as lines:
        return [StepRecord(**msgspec.json.decode(line)) for line in lines]

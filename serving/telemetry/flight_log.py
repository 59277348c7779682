"""A log of requests: each as its device's scheduler took it, so that it can be served again in virtual time, and what
became of it. A line of JSON for each, in the order of their ends."""

from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from serving.cluster.observer import EdgeObserver
from serving.flight import Flight
from serving.telemetry.log_file import LogFile
from serving.telemetry.named_struct import named_struct
from serving.types import Request

NAME = "x-request-id"


class FlightRecord(msgspec.Struct, frozen=True):
    """The log entry of a request that ended. Instants are emulated; None means never. `name` is its client's (the
    header `X-Request-Id`), or "". `place` counts the requests sent to devices before it. It began at `started_s`, had
    `tokens` from `first_s` to `last_s`, and ended for the reason `finish`. Devices could see from
    `posted_s` on that it had come."""

    request: Request
    name: str
    place: int
    device: int
    started_s: float | None
    first_s: float | None
    last_s: float
    tokens: int
    finish: str
    posted_s: float | None = None

    @property
    def id(self) -> str:
        """The request's."""
        return self.request.id

    @property
    def arrival_s(self) -> float:
        """The request's."""
        return self.request.arrival_s

    def arriving(self, arrival_s: float | None = None) -> Request:
        """Return the request as the scheduler took it; had it come at `arrival_s`, its first token due when it was."""
        if arrival_s is None:
            return self.request
        ttft_s = self.request.ttft_s - (arrival_s - self.request.arrival_s)
        return msgspec.structs.replace(self.request, arrival_s=arrival_s, ttft_s=ttft_s)


# A line has the fields of a request, and these beside them.
NamedRequest = named_struct(Request)
OWN = [name for name in FlightRecord.__struct_fields__ if name != "request"]


def record_of(flight: Flight, place: int) -> FlightRecord:
    """Return the log entry of a request that ended."""
    return FlightRecord(
        request=flight.request,
        name=flight.call.header(NAME) if flight.call else "",
        place=place,
        device=flight.device,
        started_s=flight.started_s,
        first_s=flight.first_s,
        last_s=flight.last_s,
        tokens=len(flight.tokens),
        finish=flight.finish,
        posted_s=flight.call.posted_s if flight.call else None,
    )


class FlightLog(EdgeObserver):
    """Writes what became of requests to a file, for as long as its context lasts. Raise `UsageError` if it can't be
    had."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._encoder = msgspec.json.Encoder()
        self._places: dict[str, int] = {}
        self._begun = 0

    def __enter__(self) -> "FlightLog":
        self._file = LogFile(self._path, "--flight-log")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def on_begin(self, flight: Flight) -> None:
        self._places[flight.request.id] = self._begun
        self._begun += 1

    def on_finish(self, flight: Flight) -> None:
        # One whose beginning was not heard of was there before this log.
        place = self._places.pop(flight.request.id, None)
        if place is not None:
            self._file.write(self._encoder.encode(_line(record_of(flight, place))) + b"\n")


def read_flight_log(path: Path) -> list[FlightRecord]:
    """Read the requests in a log, in the order of their ends. Raise OSError, and msgspec's `DecodeError`."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with path.open("rb") as file:
        return [_record(decode(line)) for line in file]


def _line(record: FlightRecord) -> dict[str, Any]:
    own = msgspec.structs.asdict(record)
    # What is endless is null in JSON.
    return msgspec.structs.asdict(own.pop("request")) | own


def _record(line: dict[str, Any]) -> FlightRecord:
    named = msgspec.convert({name: value for name, value in line.items() if value is not None}, NamedRequest)
    own = {name: line.get(name) for name in OWN}
    return msgspec.convert(own | {"request": msgspec.structs.astuple(named)}, FlightRecord)

"""A log of requests: each as its device's scheduler took it, so that it can be served again in virtual time, and what
became of it. A line of JSON for each, in the order of their ends."""

from pathlib import Path
from types import TracebackType

import msgspec

from serving.cluster.observer import Observer
from serving.flight import Flight
from serving.telemetry.log_file import LogFile
from serving.types import NEVER, Request

NAME = "x-request-id"


class Flown(msgspec.Struct, frozen=True):
    """A request that has ended. Instants are emulated; None is never.

    `name` is its client's for it (the header `X-Request-Id`), or "". `place` is how many were sent to devices before
    it. What comes before `started_s` is as in `Request`. It began at `started_s`, and had `tokens` from `first_s` to
    `last_s`, until it ended for the reason `finish`.
    """

    id: str
    name: str
    place: int
    device: int
    arrival_s: float
    prompt_tokens: int
    max_tokens: int
    seed: int
    topic: str
    key: str
    priority: int
    ttft_s: float | None
    tpot_s: float | None
    blocks: list[int]
    started_s: float | None
    first_s: float | None
    last_s: float
    tokens: int
    finish: str

    def request(self, arrival_s: float | None = None) -> Request:
        """The request as the scheduler took it; had it come at `arrival_s`, with its first token due when it was."""
        at_s = self.arrival_s if arrival_s is None else arrival_s
        later_s = at_s - self.arrival_s
        return Request(
            self.id,
            at_s,
            self.prompt_tokens,
            self.max_tokens,
            seed=self.seed,
            topic=self.topic,
            key=self.key,
            priority=self.priority,
            ttft_s=NEVER if self.ttft_s is None else self.ttft_s - later_s,
            tpot_s=NEVER if self.tpot_s is None else self.tpot_s,
            blocks=self.blocks,
        )


def flown(flight: Flight, place: int) -> Flown:
    """What there is to say of a request that has ended."""
    request = flight.request
    return Flown(
        id=request.id,
        name=flight.call.header(NAME) if flight.call else "",
        place=place,
        device=flight.device,
        arrival_s=request.arrival_s,
        prompt_tokens=request.prompt_tokens,
        max_tokens=request.max_tokens,
        seed=request.seed,
        topic=request.topic,
        key=request.key,
        priority=request.priority,
        ttft_s=request.ttft_s if request.ttft_s < NEVER else None,
        tpot_s=request.tpot_s if request.tpot_s < NEVER else None,
        blocks=request.blocks,
        started_s=flight.started_s,
        first_s=flight.first_s,
        last_s=flight.last_s,
        tokens=len(flight.tokens),
        finish=flight.finish,
    )


class FlightLog(Observer):
    """Writes what became of requests to a file, for as long as its context lasts. Raises `ScenarioError` if it can't be
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
            self._file.write(self._encoder.encode(flown(flight, place)) + b"\n")


def read_flight_log(path: Path) -> list[Flown]:
    """The requests in a log, in the order of their ends. Raises OSError, and msgspec's `DecodeError`."""
    decode = msgspec.json.Decoder(Flown).decode
    with path.open("rb") as file:
        return [decode(line) for line in file]

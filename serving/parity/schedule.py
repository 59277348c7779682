"""Two schedules side by side: the steps that a device made live, and its steps in virtual time.

Live, the news of an arrival takes time to reach the device. A request that arrived before a step, and was heard of
after it, *slips*: it begins a step later, and all later steps differ. A step's record counts the requests that began
in it and had slipped; the log of requests tells which they are.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise, zip_longest
from typing import NamedTuple

from serving.telemetry.flight_log import FlightRecord
from serving.types import StepRecord


class StepShape(NamedTuple):
    """The content of a step, whatever its instant: its mode, sequences, and new tokens."""

    mode: str
    batch: int
    new_tokens: int

    def __str__(self) -> str:
        return f"{self.mode.upper()} of {self.batch}, {self.new_tokens} new tokens"


class ScheduleDifference(NamedTuple):
    """The first step of a device that differs: its index `place`, and the emulated instant `at_s` at which it began.

    `live` or `virtual` is None where that side has no such step.
    """

    device: int
    place: int
    at_s: float
    live: StepShape | None
    virtual: StepShape | None


class Agreement(NamedTuple):
    """The agreement of two schedules: of the `steps` made live, `agree` came before their device's first difference.

    `first` is the earliest difference of all devices. Steps that agree began at most `apart_s` emulated seconds apart.
    """

    steps: int
    agree: int
    first: ScheduleDifference | None
    apart_s: float

    @property
    def identical(self) -> bool:
        return self.first is None


def agreement(live: Iterable[StepRecord], virtual: Iterable[StepRecord]) -> Agreement:
    """Compare two schedules step by step, in mode, batch and new tokens."""
    ours, theirs = _by_device(live), _by_device(virtual)
    differences, same = [], []
    for device in sorted(ours.keys() | theirs.keys()):
        pairs = list(zip_longest(ours[device], theirs[device]))
        place = next((i for i, pair in enumerate(pairs) if _shape(pair[0]) != _shape(pair[1])), len(pairs))
        differences += [_difference(device, place, *pair) for pair in pairs[place : place + 1]]
        same += pairs[:place]
    first = min(differences, key=lambda each: each.at_s, default=None)
    apart_s = max((abs(live.start_s - virtual.start_s) for live, virtual in same), default=0.0)
    return Agreement(sum(map(len, ours.values())), len(same), first, apart_s)


def slipped(live: Iterable[StepRecord], flights: Iterable[FlightRecord]) -> dict[str, float]:
    """Return the requests that slipped a step, by id, each with an arrival at which it makes its live step unslipped.

    That emulated instant is half-way between the beginnings of the step that it missed, and of its own.
    """
    began: dict[tuple[int, float], list[FlightRecord]] = defaultdict(list)
    for flight in flights:
        if flight.started_s is not None:
            began[flight.device, flight.started_s].append(flight)
    found = {}
    for device, steps in _by_device(live).items():
        for missed, own in pairwise(steps):
            # Others may have waited for room and begin in the same step: news of them came before.
            late = [each for each in began[device, own.start_s] if each.arrival_s <= missed.start_s]
            late.sort(key=lambda each: each.place)
            middle_s = (missed.start_s + own.start_s) / 2
            found.update({each.id: middle_s for each in late[max(0, len(late) - own.slips) :]})
    return found


def _by_device(records: Iterable[StepRecord]) -> dict[int, list[StepRecord]]:
    """Group the steps by device, in their order. A record of several equal steps stays one."""
    steps: dict[int, list[StepRecord]] = defaultdict(list)
    for record in records:
        steps[record.device].append(record)
    return steps


def _difference(device: int, place: int, live: StepRecord | None, virtual: StepRecord | None) -> ScheduleDifference:
    began_s = [record.start_s for record in (live, virtual) if record is not None]
    return ScheduleDifference(device, place, began_s[0], _shape(live), _shape(virtual))


def _shape(record: StepRecord | None) -> StepShape | None:
    return None if record is None else StepShape(record.mode, record.batch, record.new_tokens)

"""Status history: what an emulation did since its start, or in its last hour, for a page that is opened late.

A point each EVERY_S real seconds, of which the last ones are kept; so its memory is bounded, whatever the load.
"""

from collections import deque
from itertools import islice

import msgspec

from serving.telemetry.status import Status

EVERY_S = 5.0
KEPT = 720
"""Points: an hour."""


class DevicePoint(msgspec.Struct, frozen=True, array_like=True):
    """A device at one instant: tokens and joules (of steps, and all) since the start; what it runs, in which mode."""

    index: int
    tokens: int
    step_energy_j: float
    energy_j: float
    batch: int
    waiting: int
    mode: str


class StatusPoint(msgspec.Struct, frozen=True, array_like=True):
    """An emulation at one instant, `emulated_s` after its start; latencies are those of the last requests (None before
    the first), lateness is the host's, in real seconds at p99."""

    emulated_s: float
    devices: list[DevicePoint]
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    tpot_p50_s: float | None
    tpot_p99_s: float | None
    late_p99_s: float
    too_slow: bool


class StatusHistory(msgspec.Struct, frozen=True):
    """Points `every_s` real seconds apart; the first of them is the `first`-th since the start."""

    every_s: float
    first: int
    points: list[StatusPoint]


class HistoryKeeper:
    """Keeps the last KEPT points."""

    def __init__(self) -> None:
        self._points: deque[StatusPoint] = deque(maxlen=KEPT)
        self._count = 0

    def add(self, status: Status) -> None:
        """Add the status of an instant."""
        self._points.append(point_of(status))
        self._count += 1

    def after(self, seen: int = 0) -> StatusHistory:
        """Return the points from the `seen`-th since the start on, of those that are kept."""
        oldest = self._count - len(self._points)
        first = min(max(seen, oldest), self._count)
        return StatusHistory(EVERY_S, first, list(islice(self._points, first - oldest, None)))


class HistoryReader:
    """Keeps what a server tells of its history, as it goes on."""

    def __init__(self) -> None:
        self.points: deque[StatusPoint] = deque(maxlen=KEPT)
        self.seen = 0

    def add(self, told: StatusHistory) -> None:
        """Add what came after `seen`; of a server that has begun anew, the next answer is the first."""
        if told.first < self.seen:
            self.points.clear()
            self.seen = 0
            return
        self.points.extend(told.points)
        self.seen = told.first + len(told.points)


def point_of(status: Status) -> StatusPoint:
    """Return what is kept of a status."""
    devices = [
        DevicePoint(
            each.index,
            each.tokens,
            round(each.step_energy_j, 4),
            round(each.energy_j, 4),
            each.batch,
            each.waiting,
            each.mode if each.batch else "",
        )
        for each in status.devices
    ]
    return StatusPoint(
        emulated_s=round(status.emulated_s, 3),
        devices=devices,
        ttft_p50_s=status.ttft.p50_s,
        ttft_p99_s=status.ttft.p99_s,
        tpot_p50_s=status.tpot.p50_s,
        tpot_p99_s=status.tpot.p99_s,
        late_p99_s=status.host.late_p99_s,
        too_slow=bool(status.host.too_slow),
    )

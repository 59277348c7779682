"""Series of an emulation's history: what went on between each of its points and the one before."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from serving.telemetry.status_history import StatusPoint


class Series(NamedTuple):
    """Values between points [n - 1], of all devices together; None where there was nothing to tell of."""

    tokens_per_s: list[float | None]
    j_per_token: list[float | None]
    power_w: list[float | None]
    running: list[float | None]
    waiting: list[float | None]
    ttft_p99_s: list[float | None]
    tpot_p99_s: list[float | None]
    late_p99_s: list[float | None]


def series_of(points: Sequence[StatusPoint]) -> Series:
    """Return the series of points; seconds are emulated but for lateness, joules a token are those of steps."""
    rows = [_between(before, now) for before, now in pairwise(points)]
    return Series(*(list(column) for column in zip(*rows, strict=True))) if rows else Series(*([] for _ in range(8)))


def _between(before: StatusPoint, now: StatusPoint) -> tuple[float | None, ...]:
    since_s = now.emulated_s - before.emulated_s
    known = {each.index: each for each in before.devices}
    # What a device had done before it was first seen is not of this time.
    pairs = [(known.get(each.index, each), each) for each in now.devices]
    tokens = sum(each.tokens - last.tokens for last, each in pairs)
    step_j = sum(each.step_energy_j - last.step_energy_j for last, each in pairs)
    all_j = sum(each.energy_j - last.energy_j for last, each in pairs)
    return (
        tokens / since_s if since_s > 0 else None,
        step_j / tokens if tokens > 0 else None,
        all_j / since_s if since_s > 0 else None,
        float(sum(each.batch for each in now.devices)),
        float(sum(each.waiting for each in now.devices)),
        now.ttft_p99_s,
        now.tpot_p99_s,
        now.late_p99_s,
    )

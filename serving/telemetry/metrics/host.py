"""Host metrics: does this host keep the devices' pace now? Of the last seconds, and not since the start."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from serving.host_pace import CAUSES, HostPace, HostTrouble
from serving.telemetry.metrics.families import Gauges, Histogram, Labels
from serving.telemetry.metrics.requests import RequestMetrics
from serving.telemetry.metrics.steps import LATENESS_S, StepMetrics

WINDOW_S = 15.0
"""Real seconds over which the pace is told."""
ENOUGH = 20
"""Releases in them without which nothing is said."""
RELIEF = 0.8
"""Of the limits: below, a host that was too slow is said to keep the pace again."""


class _Tally(NamedTuple):
    """The sum and the number of values of some histograms."""

    total: float
    values: int

    @classmethod
    def of(cls, histograms: Iterable[Histogram]) -> "_Tally":
        pairs = [(each.sum, sum(each.counts)) for each in histograms]
        return cls(sum(total for total, _ in pairs), sum(count for _, count in pairs))

    def less(self, other: "_Tally") -> "_Tally":
        return _Tally(self.total - other.total, self.values - other.values)

    @property
    def mean(self) -> float | None:
        return self.total / self.values if self.values > 0 else None


class _Totals(NamedTuple):
    """What all devices that have series did since the start, at a real instant; `late` are pacing errors [LATENESS_S,
    and beyond]."""

    at_s: float
    delivery: _Tally
    pacing: _Tally
    step: _Tally
    ttft: _Tally
    underruns: int
    tokens: int
    recorded: int
    late: NDArray[np.int64]

    def less(self, other: "_Totals") -> "_Totals":
        return _Totals(
            self.at_s,
            delivery=self.delivery.less(other.delivery),
            pacing=self.pacing.less(other.pacing),
            step=self.step.less(other.step),
            ttft=self.ttft.less(other.ttft),
            underruns=self.underruns - other.underruns,
            tokens=self.tokens - other.tokens,
            recorded=self.recorded - other.recorded,
            late=self.late - other.late,
        )


class HostMetrics:
    """The host's pace over the last WINDOW_S, as `look` finds it; once beyond a limit, it is in trouble until it is
    RELIEF below it."""

    def __init__(
        self, registry: CollectorRegistry, steps: StepMetrics, requests: RequestMetrics, speed: Callable[[], float]
    ) -> None:
        """`speed`: emulated seconds per real second."""
        self._steps, self._requests, self._speed = steps, requests, speed
        self._seen: deque[_Totals] = deque()
        self._ttft_mean_s: float | None = None
        self.pace = HostPace(1.0, None, None, None, None, 0, 0, 0)
        self.trouble: HostTrouble | None = None
        self.late_p99_s = 0.0
        Gauges(
            registry,
            "foreserve_host_too_slow",
            "1 while this host is too slow for the load, by what it is too slow at.",
            ["cause"],
            self._too_slow,
        )

    @property
    def is_judged(self) -> bool:
        """Tell whether there was enough of a load in the last seconds to tell."""
        return len(self._seen) > 1 and self._seen[-1].delivery.values - self._seen[0].delivery.values >= ENOUGH

    def look(self, now_s: float) -> None:
        """Take stock at a real instant."""
        self._seen.append(now := self._totals(now_s))
        while len(self._seen) > 2 and self._seen[1].at_s <= now_s - WINDOW_S:
            self._seen.popleft()
        grown = now.less(self._seen[0])
        self.pace, self.late_p99_s = self._pace_of(grown), _p99(grown.late)
        strictness = RELIEF if self.trouble else 1.0
        self.trouble = self.pace.trouble(strictness) if self.is_judged else None

    def leave_out(self, drop: Callable[[], None]) -> None:
        """Have `drop` end series of devices that did nothing of late, and leave their counts out of what is looked back
        at: the pace stays as it is."""
        before = self._totals(0.0)
        drop()
        dropped = before.less(self._totals(0.0))
        self._seen = deque(seen.less(dropped) for seen in self._seen)

    def sentence(self) -> str:
        """Return what there is to say, and to do; nothing while the host keeps the pace."""
        found = self.trouble
        return f"This host is too slow for this load: {found.what}. {found.advice}" if found else ""

    def _pace_of(self, grown: _Totals) -> HostPace:
        speed = self._speed()
        # While long answers go on, none may have begun for longer than is looked back.
        if (ttft_mean_s := grown.ttft.mean) is not None:
            self._ttft_mean_s = ttft_mean_s

        def emulated(seconds: float | None) -> float | None:
            return None if seconds is None else speed * seconds

        return HostPace(
            speed=speed,
            lateness_mean_s=emulated(grown.delivery.mean),
            ttft_mean_s=self._ttft_mean_s,
            step_mean_s=grown.step.mean,
            pacing_error_mean_s=emulated(grown.pacing.mean),
            underruns=grown.underruns,
            released_tokens=grown.tokens,
            recorded_tokens=grown.recorded,
        )

    def _totals(self, now_s: float) -> _Totals:
        steps = self._steps
        late = [tally.counts for tally in steps.pacing.values.values()]
        return _Totals(
            now_s,
            delivery=_Tally.of(steps.delivery.values.values()),
            pacing=_Tally.of(steps.pacing.values.values()),
            step=_Tally.of(steps.latency.values.values()),
            ttft=_Tally.of(self._requests.ttft.values.values()),
            underruns=int(sum(steps.underruns.values.values())),
            tokens=int(sum(steps.tokens.values.values())),
            recorded=int(sum(steps.recorded.values.values())),
            late=np.sum(late, axis=0, dtype=np.int64) if late else np.zeros(len(LATENESS_S) + 1, np.int64),
        )

    def _too_slow(self) -> dict[Labels, float]:
        return {(cause,): float(self.trouble is not None and self.trouble.cause == cause) for cause in CAUSES}


def _p99(counts: NDArray[np.int64]) -> float:
    """Return the bound below which 99 % of the values lie; the last bound if it lies beyond, 0 of none."""
    total = int(counts.sum())
    place = int(np.searchsorted(np.cumsum(counts), 0.99 * total)) if total else -1
    return 0.0 if place < 0 else LATENESS_S[min(place, len(LATENESS_S) - 1)]

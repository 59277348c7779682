"""The verdict: which differences between live and virtual time are too large.

The limits are shares of the figures in virtual time. A clock that two processes read is good to a millisecond at best,
so a shorter difference is none, whatever its share. Where arrivals are not equal, figures differ by chance too
(`spread`): a difference beyond its limit, but within chance, decides nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from serving.parity.figures import CLIENT, DEVICE, METRICS, PLANNED, ComparedRow, quantiles
from serving.parity.schedule import Agreement
from serving.parity.spread import Key, Spread

LIMITS = {"mean": 0.03, "p99": 0.08}
STAMP_S = 0.001  # Real seconds: how well a clock that two processes read can be trusted.
FEW = 100  # Of fewer requests the 99th percentile lies between the two largest.


class Check(NamedTuple):
    """A figure over all requests, live (on `side`, the client or the device) and as planned, in emulated seconds.

    `limit`: allowed difference, as a share of the planned figure. `floor_s`: a difference up to this does not count.
    `spread`: the figure in virtual time with requests as late as live. `few`: too few requests to rule out chance.
    """

    side: str
    metric: str
    statistic: str
    live_s: float
    planned_s: float
    limit: float
    floor_s: float
    spread: Spread
    few: bool = False

    @property
    def share(self) -> float:
        """The difference over the planned figure."""
        return self.live_s / self.planned_s - 1 if self.planned_s else 0.0

    @property
    def within(self) -> bool:
        return abs(self.share) <= self.limit or abs(self.live_s - self.planned_s) <= self.floor_s

    @property
    def chance(self) -> bool:
        """Tell whether the figure is beyond its limit, perhaps by chance."""
        return not self.within and (self.few or abs(self.live_s - self.planned_s) <= self.spread.chance_s)

    def __str__(self) -> str:
        name = f"{self.metric.removesuffix('_s').upper()} {self.statistic}"
        late_ms, chance_ms = (seconds * 1e3 for seconds in self.spread)
        perhaps = ", perhaps by chance" if self.chance else ""
        return (
            f"{name} of the {self.side}: {self.live_s * 1e3:.4g} ms live, {self.planned_s * 1e3:.4g} ms as planned, "
            f"{self.share:+.1%} (limit {self.limit:.0%}){perhaps}; if late, it is {late_ms:.4g} ± {chance_ms:.3g} ms"
        )


def checks_of(rows: Sequence[ComparedRow], speed: float, spreads: Mapping[Key, Spread]) -> list[Check]:
    """Return a check of each figure that has a limit, none without requests; `spreads` by metric and statistic."""
    found = []
    for side in (DEVICE, CLIENT):
        for metric in METRICS:
            live, planned = quantiles(rows, side, metric), quantiles(rows, PLANNED, metric)
            for statistic, limit in LIMITS.items():
                pair = getattr(live, statistic), getattr(planned, statistic)
                if None not in pair:
                    margins = _floor_s(rows, metric) * speed, spreads[metric, statistic]
                    few = statistic == "p99" and planned.count < FEW
                    found.append(Check(side, metric, statistic, *pair, limit, *margins, few))
    return found


def differs(arrived: Agreement, heard: Agreement) -> str | None:
    """Return how the schedules differ though arrivals are equal, as a clause; None if they do not.

    `heard` compares them with requests that slipped a step live arriving a step later.
    """
    first = heard.first
    if arrived.identical or first is None:
        return None
    return (
        f"the schedule is not the same: of {heard.steps:,} steps {heard.agree:,} agree, and step {first.place:,} of "
        f"device {first.device} is {first.live or 'none'} live and {first.virtual or 'none'} in virtual time"
    )


def _floor_s(rows: Sequence[ComparedRow], metric: str) -> float:
    """Return the difference that clocks cannot tell, in real seconds; TPOT shares it among tokens after the first."""
    if metric == "ttft_s":
        return STAMP_S
    return STAMP_S / float(np.mean([row.output_tokens - 1 for row in rows if row.output_tokens > 1]))

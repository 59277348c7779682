"""The spread of a workload's figures in virtual time when requests come some milliseconds later, as they do live.

Whether a request just makes a step, or just misses it, changes all later steps. So two runs of one workload with
different arrivals are two samples, and differ by chance: the less, the more requests there are.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from serving.load.summary import Quantiles
from serving.parity.figures import METRICS, STATISTICS, ComparedRow, Times, times_of
from serving.scenario.scenario import Scenario
from serving.simulation.play import play_from
from serving.workload import Ask, Source, Workload

Key = tuple[str, str]
"""A metric and a statistic of it."""

RUNS = 16
SIGMAS = 2.0  # A difference of more standard deviations than this is not chance.
BOTH = 2**0.5  # The difference of two samples, the planned run and the live one, has twice the variance of one.


class Spread(NamedTuple):
    """A figure in virtual time when requests are as late as live: its mean, and the width of chance, in seconds."""

    late_s: float
    chance_s: float


class LateWorkload(Source):
    """A workload whose requests come later than planned, each by one of `delays_s`, drawn at random."""

    def __init__(self, workload: Workload, delays_s: Sequence[float], rng: np.random.Generator) -> None:
        super().__init__(workload)
        self._delays_s, self._rng = np.array(delays_s), rng

    def __iter__(self) -> Iterator[Ask]:
        last_s = 0.0
        for ask in super().__iter__():
            last_s = max(last_s, ask.arrival_s + self._delay_s())
            yield msgspec.structs.replace(ask, arrival_s=last_s)

    def next_after(self, ended: Ask, at_s: float) -> Ask | None:
        return super().next_after(ended, at_s + self._delay_s())

    def _delay_s(self) -> float:
        return float(self._rng.choice(self._delays_s))


def spread(workload: Workload, scenario: Scenario, rows: Sequence[ComparedRow], step_s: float) -> dict[Key, Spread]:
    """Return the spread of each figure over the requests of `rows`, each as late as one of them was live.

    It is taken from `RUNS` runs; chance is `SIGMAS` standard deviations of the difference between two of them. A
    request that slipped was later by a step, of `step_s` on average.
    """
    if not rows:
        return {}
    ids = {row.id for row in rows}
    delays_s = [max(0.0, row.delay_s) + (step_s if row.slipped else 0.0) for row in rows]
    runs = []
    for seed in range(RUNS):
        late = LateWorkload(workload, delays_s, np.random.default_rng(seed))
        outcomes, _ = play_from(late, workload, scenario)
        runs.append([times_of(outcome) for outcome in outcomes if outcome.request.id in ids])
    keys = [(metric, statistic) for metric in METRICS for statistic in STATISTICS]
    figures = {key: [_figure(run, *key) for run in runs] for key in keys}
    return {
        key: Spread(float(np.mean(values)), SIGMAS * BOTH * float(np.std(values, ddof=1)))
        for key, values in figures.items()
    }


def _figure(run: Sequence[Times], metric: str, statistic: str) -> float:
    values = [getattr(times, metric) for times in run]
    return getattr(Quantiles.of(np.array([value for value in values if value is not None])), statistic) or 0.0

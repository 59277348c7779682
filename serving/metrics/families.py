"""Counters, gauges and histograms that cost a step next to nothing: plain sums by labels, made into families only when
somebody scrapes.

The library's own take a lock for each change, and look through a histogram's buckets one by one: 0.5 to 1.5 us each,
of which a step of 16 sequences makes eighty. All that changes these is on one thread, the edge's event loop, and so is
the scrape. Labels are tuples in the order of the family's label names.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]
INFINITY = float("inf")


class _Values(Collector):
    """A number by labels: kept in `values`, or read when somebody scrapes."""

    make: ClassVar[type[CounterMetricFamily | GaugeMetricFamily]]

    def __init__(
        self,
        registry: CollectorRegistry,
        name: str,
        text: str,
        labels: Sequence[str] = (),
        read: Callable[[], Mapping[Labels, float]] | None = None,
    ) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self.values: defaultdict[Labels, float] = defaultdict(float)
        self._read = read
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return [self.make(self.name, self.text, labels=self.labels)]

    def collect(self) -> Iterable[Metric]:
        family = self.make(self.name, self.text, labels=self.labels)
        for labels, value in (self._read() if self._read else self.values).items():
            family.add_metric(labels, value)
        yield family


class Totals(_Values):
    """A counter: `values[labels] += more`."""

    make = CounterMetricFamily


class Levels(_Values):
    """A gauge: `values[labels] = level`."""

    make = GaugeMetricFamily


class Tally:
    """How many values there were up to each bound, and their sum."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """A value, or as many equal ones."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def quantile(self, share: float) -> float:
        """The bound below which that share of the values lies; the last bound if it lies beyond, 0 of no values."""
        total, left = sum(self.counts), 0
        for bound, count in zip(self._bounds, self.counts, strict=False):
            left += count
            if left >= share * total:
                return bound if total else 0.0
        return self._bounds[-1]


class Tallies(Collector):
    """A histogram: `of(labels).observe(value)`."""

    def __init__(
        self, registry: CollectorRegistry, name: str, text: str, labels: Sequence[str], bounds: Iterable[float]
    ) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self._bounds = sorted({*bounds} - {INFINITY})
        self._le = [*map(_written, self._bounds), "+Inf"]
        self.values: dict[Labels, Tally] = {}
        registry.register(self)

    def of(self, labels: Labels) -> Tally:
        """The tally of some labels; from now on there is one."""
        tally = self.values.get(labels)
        if tally is None:
            tally = self.values[labels] = Tally(self._bounds)
        return tally

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(self.name, self.text, labels=self.labels)]

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        for labels, tally in self.values.items():
            family.add_metric(labels, self._cumulated(tally), tally.sum)
        yield family

    def _cumulated(self, tally: Tally) -> list[tuple[str, float]]:
        total, buckets = 0, []
        for le, count in zip(self._le, tally.counts, strict=True):
            total += count
            buckets.append((le, float(total)))
        return buckets


def _written(bound: float) -> str:
    """As the library writes the bounds of its own."""
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]

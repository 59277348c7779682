"""Counters, gauges and histograms that cost a step next to nothing: plain sums by labels, made into families only when
somebody scrapes.

The library's own take a lock for each change, and look through a histogram's buckets one by one: 0.5 to 1.5 us each,
of which a step of 16 sequences makes eighty. All that changes these is on one thread, the edge's event loop, and so is
the scrape. Labels are tuples in the order of the family's label names.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]
INFINITY = float("inf")


class Family(Metric):
    """A family whose samples are made only when they are asked for: a scrape takes its `written` form, which is ten
    times as quick to make."""

    def __init__(self, name: str, text: str, kind: str, written: Callable[[], str], full: Callable[[], Metric]) -> None:
        super().__init__(name, text, kind)
        self._full = full
        self._body = written

    @property
    def samples(self) -> list[Sample]:  # type: ignore[override]  # what the library has as a list, and fills
        """Return the family's samples, as the library has them."""
        return self._full().samples

    @samples.setter
    def samples(self, none_yet: list[Sample]) -> None:
        """Ignore the empty list with which the library begins."""

    def written(self) -> str:
        """In Prometheus's text format, 0.0.4."""
        name = f"{self.name}_total" if self.type == "counter" else self.name
        return f"# HELP {name} {self.documentation}\n# TYPE {name} {self.type}\n{self._body()}"

    def _restricted_metric(self, names: set[str]) -> Metric | None:
        """Return the family with those of its samples alone that are called so; None if none is. A registry asks for it
        when a scraper picks series by name, and the library's own has each sample made."""
        # Not `splitlines`: a label may hold what it takes for the end of a line.
        lines = [f"{line}\n" for line in self._body().split("\n")[:-1] if _sample_name(line) in names]
        full = partial(super()._restricted_metric, names)
        return Family(self.name, self.documentation, self.type, lambda: "".join(lines), full) if lines else None


class _Labelled(Collector):
    """A family's name, help text and labels, which are rendered once."""

    values: dict[Labels, Any]

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self._written: dict[Labels, str] = {}

    def _pairs(self, labels: Labels) -> str:
        written = self._written.get(labels)
        if written is None:
            pairs = [f'{name}="{escaped(value)}"' for name, value in zip(self.labels, labels, strict=True)]
            written = self._written[labels] = ",".join(pairs)
        return written

    def drop(self, named: Mapping[str, Container[str]]) -> None:
        """Drop the series that have one of the values `named` for a label; one that comes again begins anew."""
        places = [(place, named[label]) for place, label in enumerate(self.labels) if label in named]
        for labels in {*self.values, *self._written}:
            if any(labels[place] in values for place, values in places):
                self.values.pop(labels, None)
                self._written.pop(labels, None)


class FamilyRegistry(CollectorRegistry):
    """The part of a registry that is families of ours: series can be dropped from all of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._registry = registry
        self._families: list[_Labelled] = []

    def register(self, collector: Collector) -> None:
        """Register a collector with the whole registry."""
        self._registry.register(collector)
        if isinstance(collector, _Labelled):
            self._families.append(collector)

    def drop(self, named: Mapping[str, Container[str]]) -> None:
        """Drop the series that have one of the values `named` for a label."""
        for family in self._families:
            family.drop(named)


class _Values(_Labelled):
    """A number by labels: kept in `values`, or read when somebody scrapes."""

    make: ClassVar[type[CounterMetricFamily | GaugeMetricFamily]]
    kind: ClassVar[str]
    suffix: ClassVar[str] = ""

    def __init__(
        self,
        registry: CollectorRegistry,
        name: str,
        text: str,
        labels: Sequence[str] = (),
        read: Callable[[], Mapping[Labels, float]] | None = None,
    ) -> None:
        super().__init__(name, text, labels)
        self.values: defaultdict[Labels, float] = defaultdict(float)
        self._read = read
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return [self.make(self.name, self.text, labels=self.labels)]

    def collect(self) -> Iterable[Metric]:
        yield Family(self.name, self.text, self.kind, self._lines, self._full)

    def _now(self) -> Mapping[Labels, float]:
        return self._read() if self._read else self.values

    def _full(self) -> Metric:
        family = self.make(self.name, self.text, labels=self.labels)
        for labels, value in self._now().items():
            family.add_metric(labels, value)
        return family

    def _lines(self) -> str:
        name, pairs = self.name + self.suffix, self._pairs
        if not self.labels:
            return "".join([f"{name} {value}\n" for value in self._now().values()])
        return "".join([f"{name}{{{pairs(labels)}}} {value}\n" for labels, value in self._now().items()])


class Counters(_Values):
    """A counter: `values[labels] += more`."""

    make, kind, suffix = CounterMetricFamily, "counter", "_total"


class Gauges(_Values):
    """A gauge: `values[labels] = level`."""

    make, kind = GaugeMetricFamily, "gauge"


class Histogram:
    """A histogram's counts up to each bound, and the sum of its values."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Record a value, or as many equal ones."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times


class Histograms(_Labelled):
    """A histogram: `of(labels).observe(value)`."""

    def __init__(
        self, registry: CollectorRegistry, name: str, text: str, labels: Sequence[str], bounds: Iterable[float]
    ) -> None:
        super().__init__(name, text, labels)
        self._bounds = sorted({*bounds} - {INFINITY})
        self._le = [*map(_written, self._bounds), "+Inf"]
        self.values: dict[Labels, Histogram] = {}
        registry.register(self)

    def of(self, labels: Labels) -> Histogram:
        """Return the tally of some labels; create it if there is none."""
        tally = self.values.get(labels)
        if tally is None:
            tally = self.values[labels] = Histogram(self._bounds)
        return tally

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(self.name, self.text, labels=self.labels)]

    def collect(self) -> Iterable[Metric]:
        yield Family(self.name, self.text, "histogram", self._lines, self._full)

    def _full(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        for labels, tally in self.values.items():
            family.add_metric(labels, self._cumulated(tally), tally.sum)
        return family

    def _lines(self) -> str:
        lines = []
        for labels, tally in self.values.items():
            pairs, counts = self._pairs(labels), list(accumulate(tally.counts))
            bucket = f"{self.name}_bucket{{{pairs},le="
            lines += [f'{bucket}"{le}"}} {count}\n' for le, count in zip(self._le, counts, strict=True)]
            lines.append(f"{self.name}_count{{{pairs}}} {counts[-1]}\n{self.name}_sum{{{pairs}}} {tally.sum}\n")
        return "".join(lines)

    def _cumulated(self, tally: Histogram) -> list[tuple[str, float]]:
        counts = accumulate(map(float, tally.counts))
        return list(zip(self._le, counts, strict=True))


def _sample_name(line: str) -> str:
    """Return the name of the sample in a line of text."""
    return line.partition("{")[0].partition(" ")[0]


def escaped(value: str) -> str:
    """Return a label's value, as the format wants it."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _written(bound: float) -> str:
    """Format a bound as the library does."""
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]

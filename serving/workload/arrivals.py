"""Arrivals: the instants at which sessions begin.

In an open loop they are fixed beforehand: gaps of mean 1 run through a rate that may change over time. In a closed loop
a user begins a session when the one before is done.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serving.toml_table import AT_LEAST_0, AT_LEAST_1, RATE, RATE_OR_0, SPAN_S, AllowedNumber, TomlTable
from serving.workload.distributions import Distribution, always, distribution

Values = NDArray[np.float64]
CHUNK = 4096
USERS = AllowedNumber("a whole number from 1 to 1000000", lambda value: 1 <= value <= 10**6 and value == int(value))
SPREAD = AllowedNumber("0, or a number from 0.01 to 100", lambda cv: cv == 0 or 0.01 <= cv <= 100)
GRID = 4096  # Points of a diurnal period between which its rate is taken as constant: 21 s of a day.


class Rate(Protocol):
    """Requests per second over time."""

    def when(self, count: Values) -> Values:
        """Return the instants by which `count` arrivals are expected; infinite for those that never are."""
        ...

    def scaled(self, factor: float) -> "Rate":
        """Return the rate multiplied by `factor` at all times."""
        ...


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Arrivals at a rate, whatever becomes of them. `cv` is the standard deviation of the gaps over their mean while
    the rate stands still: 1 is Poisson, more is bursty, 0 is even."""

    rate: Rate
    cv: float = 1.0

    def at_load(self, factor: float) -> "OpenLoop":
        """Return the loop with its rate multiplied by `factor`."""
        return replace(self, rate=self.rate.scaled(factor))

    def times(self, rng: np.random.Generator) -> Iterator[Values]:
        """Yield ascending instants in chunks of CHUNK; the last one is shorter, if there is one."""
        count, last_s, even = 0.0, 0.0, np.arange(CHUNK, dtype=np.float64)
        while True:
            # Even arrivals begin at 0, others a gap after it.
            counts: Values = count + (np.cumsum(self._gaps(rng)) if self.cv else even)
            count = float(counts[-1]) if self.cv else count + CHUNK
            # Never earlier than the one before, whatever rounding does.
            at_s = np.maximum.accumulate(np.maximum(self.rate.when(counts), last_s))
            if np.isinf(at_s[-1]):
                yield at_s[np.isfinite(at_s)]
                return
            yield at_s
            last_s = float(at_s[-1])

    def _gaps(self, rng: np.random.Generator) -> Values:
        if self.cv == 1:
            return rng.standard_exponential(CHUNK)
        return rng.gamma(self.cv**-2, self.cv**2, CHUNK)


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`users`, each of whom has one session after the other and pauses for `think_s` between them. The first ones
    begin spread evenly over `ramp_s`."""

    users: int
    think_s: Distribution
    ramp_s: float = 0.0

    def at_load(self, factor: float) -> "ClosedLoop":
        """Return the loop with `factor` times as many users, at least one."""
        return replace(self, users=max(1, round(self.users * factor)))

    def first_s(self) -> list[float]:
        """Return the instant at which each user begins."""
        return [self.ramp_s * user / self.users for user in range(self.users)]


@dataclass(frozen=True, slots=True)
class Steady:
    """A constant rate."""

    per_s: float

    def when(self, count: Values) -> Values:
        """Return the instants by which `count` arrivals are expected; infinite for those that never are."""
        return count / self.per_s

    def scaled(self, factor: float) -> "Steady":
        """Return the rate multiplied by `factor`."""
        return Steady(self.per_s * factor)


@dataclass(frozen=True, slots=True)
class Ramp:
    """From one rate to another on a straight line, and then on at that."""

    from_per_s: float
    to_per_s: float
    over_s: float

    def when(self, count: Values) -> Values:
        """Return the instants by which `count` arrivals are expected; infinite for those that never are."""
        slope = (self.to_per_s - self.from_per_s) / self.over_s
        on_the_way = (self.from_per_s + self.to_per_s) / 2 * self.over_s
        within = np.clip(count, 1e-300, on_the_way)
        root = np.sqrt(np.maximum(self.from_per_s**2 + 2 * slope * within, 0.0))
        after = count - on_the_way
        rest = np.where(after > 0, np.inf, 0.0) if self.to_per_s == 0 else np.maximum(after, 0.0) / self.to_per_s
        at_s: Values = 2 * within / (self.from_per_s + root) + rest
        return at_s

    def scaled(self, factor: float) -> "Ramp":
        """Return the rate multiplied by `factor`."""
        return replace(self, from_per_s=self.from_per_s * factor, to_per_s=self.to_per_s * factor)


@dataclass(frozen=True, slots=True)
class Steps:
    """Rates `per_s` [n] for `for_s` [n] one after the other; then it ends."""

    per_s: Values
    for_s: Values

    def when(self, count: Values) -> Values:
        """Return the instants by which `count` arrivals are expected; infinite for those that never are."""
        counts = np.concatenate(([0.0], np.cumsum(self.per_s * self.for_s)))
        starts = np.concatenate(([0.0], np.cumsum(self.for_s)))[:-1]
        place = np.searchsorted(counts, count, side="right") - 1
        over = place >= len(starts)
        place = np.minimum(place, len(starts) - 1)
        # No count lies in a step of rate 0: it has no room for one.
        at_s = starts[place] + (count - counts[place]) / np.where(self.per_s > 0, self.per_s, 1.0)[place]
        return np.where(over, np.inf, at_s)

    def scaled(self, factor: float) -> "Steps":
        """Return the rate multiplied by `factor`."""
        return replace(self, per_s=self.per_s * factor)


@dataclass(frozen=True, slots=True)
class Diurnal:
    """A rate that goes up and down as a cosine with period `period_s`: highest at `peak_at_s`, `peak_to_trough` times
    as high as at its lowest, `mean_per_s` on average."""

    mean_per_s: float
    peak_to_trough: float
    period_s: float
    peak_at_s: float

    def when(self, count: Values) -> Values:
        """Return the instants by which `count` arrivals are expected; infinite for those that never are."""
        swing = (self.peak_to_trough - 1) / (self.peak_to_trough + 1)
        phase = 2 * np.pi * np.linspace(0.0, 1.0, GRID + 1)
        ahead = 2 * np.pi * self.peak_at_s / self.period_s
        grid = phase + swing * (np.sin(phase - ahead) + np.sin(ahead))  # Expected arrivals, of 2 pi in a period.
        periods, within = np.divmod(count / (self.mean_per_s * self.period_s), 1.0)
        at_s: Values = self.period_s * (periods + np.interp(within * 2 * np.pi, grid, phase) / (2 * np.pi))
        return at_s

    def scaled(self, factor: float) -> "Diurnal":
        """Return the rate multiplied by `factor`."""
        return replace(self, mean_per_s=self.mean_per_s * factor)


def arrivals(table: TomlTable) -> OpenLoop | ClosedLoop | None:
    """Parse a table `arrivals`; None if requests come when a trace says."""
    kind = table.word("kind", KINDS)
    found = KINDS[kind](table)
    table.end()
    return found


def _poisson(table: TomlTable) -> OpenLoop:
    return OpenLoop(Steady(table.number("rate_per_s", RATE)))


def _gamma(table: TomlTable) -> OpenLoop:
    return OpenLoop(Steady(table.number("rate_per_s", RATE)), table.number("cv", SPREAD))


def _constant(table: TomlTable) -> OpenLoop:
    return OpenLoop(Steady(table.number("rate_per_s", RATE)), 0.0)


def _diurnal(table: TomlTable) -> OpenLoop:
    rate = Diurnal(
        table.number("mean_per_s", RATE),
        table.number("peak_to_trough", AT_LEAST_1),
        table.number("period_s", SPAN_S, 86400.0),
        table.number("peak_at_s", AT_LEAST_0, 0.0),
    )
    return OpenLoop(rate, _cv(table))


def _ramp(table: TomlTable) -> OpenLoop:
    first, last = table.number("from_per_s", RATE_OR_0), table.number("to_per_s", RATE_OR_0)
    if first == last == 0:
        raise table.wrong("to_per_s", last, "above 0, if `from_per_s` is not")
    return OpenLoop(Ramp(first, last, table.number("over_s", SPAN_S)), _cv(table))


def _steps(table: TomlTable) -> OpenLoop:
    steps = table.get("steps")
    pair = "a list of [requests per second, seconds], such as [[1, 60], [10, 5]]"
    if not isinstance(steps, list) or not steps:
        raise table.wrong("steps", steps, pair)
    if any(not isinstance(step, list) or len(step) != 2 for step in steps):
        raise table.wrong("steps", steps, pair)
    per_s = [table.checked("steps", step[0], RATE_OR_0) for step in steps]
    for_s = [table.checked("steps", step[1], SPAN_S) for step in steps]
    if not any(per_s):
        raise table.wrong("steps", steps, f"{pair}, with some rate above 0")
    return OpenLoop(Steps(np.array(per_s), np.array(for_s)), _cv(table))


def _closed(table: TomlTable) -> ClosedLoop:
    think_s = distribution(table, "think_s", AT_LEAST_0, always(0.0))
    return ClosedLoop(table.whole("users", USERS), think_s, table.number("ramp_s", AT_LEAST_0, 0.0))


def _trace(table: TomlTable) -> None:
    return None


KINDS: dict[str, Callable[[TomlTable], OpenLoop | ClosedLoop | None]] = {
    "poisson": _poisson,
    "gamma": _gamma,
    "constant": _constant,
    "diurnal": _diurnal,
    "ramp": _ramp,
    "steps": _steps,
    "closed": _closed,
    "trace": _trace,
}


def _cv(table: TomlTable) -> float:
    return table.number("cv", SPREAD, 1.0)

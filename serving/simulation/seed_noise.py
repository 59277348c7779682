"""Seed noise: by how much the best of some places is ahead of the next ones, and whether seeds alone could make it so.

The rule is a paired t-test. Runs with the same seed have the same requests, so a place's gap to another is taken seed
by seed, as a share: what a seed makes hard for both is in no gap. Of n gaps the `noise` is half the width of the
interval that has their mean with a confidence of 95 %: Student's t of n - 1 degrees of freedom, times their standard
deviation, over the root of n. A lead that is no larger is one that seeds may have made: the places are `alike`. With
two seeds t is 12.7, with three 4.3, with five 2.8, so more seeds tell finer. One seed has no spread, and tells nothing.

Of few seeds a gap's spread may be small by luck, so a place that comes before one that is alike is alike, too. Each is
compared with the best by itself, at 95 %: of very many places, some that are as good will still seem worse. The best
was chosen for its figure, too, so that its lead is rather too large than too small.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Generic, NamedTuple, TypeVar

from scipy.special import stdtrit

CONFIDENCE = 0.95
# Figures that are the same but for how sums are rounded.
EQUAL = 1e-9

Place = TypeVar("Place")
BySeed = Mapping[int | None, float]
"""A place's figure with each seed; None is whatever seeds scenario and workload have themselves."""


class Gap(NamedTuple):
    """How much better one place is than another by a figure, as a share of the larger of the two, on average over the
    `seeds` that both have; `noise` is what seeds may make of it by themselves, None of a single seed."""

    lead: float
    noise: float | None
    seeds: int

    @property
    def is_alike(self) -> bool:
        """Tell whether seeds may have made all of the lead. Of one seed only equal figures are alike."""
        return self.lead <= max(self.noise or 0.0, EQUAL)


class Ranking(NamedTuple, Generic[Place]):
    """The best place, its gap to the next one, and those that it can't be told from, the best first, and what seeds
    vary there at most (`noise`)."""

    first: Place
    next: Place
    gap: Gap
    alike: list[Place]
    noise: float | None


def gap_between(mine: BySeed, others: BySeed, sign: int, least: float = 0.0) -> Gap:
    """Return how much better one place is than another by a figure of which the most is wanted (`sign` -1) or the least
    (1), over the seeds that both have. Figures are not known better than to the share `least`: nor is the gap, where
    there are several seeds."""
    gaps = [sign * _share(others[seed] - mine[seed], mine[seed], others[seed]) for seed in mine if seed in others]
    lead = fmean(gaps) if gaps else 0.0
    if len(gaps) < 2:
        return Gap(lead, None, len(gaps))
    noise = float(stdtrit(len(gaps) - 1, (1 + CONFIDENCE) / 2)) * stdev(gaps) / sqrt(len(gaps))
    return Gap(lead, max(noise, least), len(gaps))


def ranking(places: Sequence[tuple[Place, BySeed]], sign: int, least: float = 0.0) -> Ranking[Place]:
    """Return the lead of the first of two `places` or more, which come the best first."""
    (first, figures), *others = places
    gaps = [(place, gap_between(figures, other, sign, least)) for place, other in others]
    last = max((number for number, (_, gap) in enumerate(gaps, 1) if gap.is_alike), default=0)
    alike = gaps[:last]
    following, gap = gaps[0]
    noise = None if gap.noise is None else max((each.noise or 0.0 for _, each in alike), default=gap.noise)
    return Ranking(first, following, gap, [place for place, _ in alike], noise)


def _share(gap: float, one: float, other: float) -> float:
    """Return a gap as a share of the larger figure, so that no seed counts for more where all takes longer."""
    return gap / max(abs(one), abs(other)) if one or other else 0.0


def within_noise(noise: float, seeds: int, others: int = 1) -> str:
    """Return in words within what so many `others` are alike with the best."""
    return f"alike within what {seeds} seeds vary, {'up to ' if others > 1 else ''}{percent(noise)}"


def percent(value: float) -> str:
    """Return a share with as many digits as seeds tell of: 2.1 %, 14 %."""
    return f"{value * 100:.{0 if value >= 0.1 else 1}f} %" if value >= 0.001 else "less than 0.1 %"

"""Lead: by how much the best place of a study is ahead of the next ones, and whether seeds alone could make it so.

The rule is a paired t-test. Runs with the same seed have the same requests, so a place's gap to another is taken seed
by seed, as a share: what a seed makes hard for both is in no gap. Of n gaps the `noise` is half the width of the
interval that has their mean with a confidence of 95 %: Student's t of n - 1 degrees of freedom, times their standard
deviation, over the root of n. A lead that is no larger is one that seeds may have made: the places are `alike`. With
two seeds t is 12.7, with three 4.3, with five 2.8, so more seeds tell finer. One seed has no spread, and tells nothing.

Of few seeds a gap's spread may be small by luck, so a place that comes before one that is alike is alike, too. Each is
compared with the best by itself, at 95 %: of very many places, some that are as good will still seem worse. The best
was chosen for its figure, too, so that its lead is rather too large than too small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy.special import stdtrit

from serving.study.axes import Settings
from serving.study.point import SEED
from serving.study.questions import by_settings, closeness, pooled
from serving.study.questions.search import Search
from serving.study.questions.sweep import BEST, Sweep
from serving.study.results import Results
from serving.study.study import Finding

CONFIDENCE = 0.95
# Figures that are the same but for how sums are rounded.
EQUAL = 1e-9

Group = tuple[Settings, list[Finding]]


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


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead of the `first` place over the `next` by a `figure`, of which the most is wanted (`sign` -1) or the least
    (1); `alike`: the places that it can't be told from, the best first, and what seeds vary there at most (`noise`)."""

    figure: str
    sign: int
    first: Settings
    next: Settings
    gap: Gap
    alike: list[Settings]
    noise: float | None

    @property
    def told(self) -> dict[str, Any]:
        """Return it as an object of JSON."""
        sought = "most" if self.sign < 0 else "least"
        places = {"first": self.first, "next": self.next, "alike": self.alike}
        figures = {"lead": self.gap.lead, "noise": self.noise, "seeds": self.gap.seeds}
        return {"figure": self.figure, "sought": sought} | places | figures


def leads(results: Results) -> list[Lead]:
    """Return the lead of each winner that a study names: of a sweep by goodput and by energy, of a search by its
    figure. Of other questions, and where no other place does as is asked, there is none."""
    study, question = results.study, results.study.question
    groups = by_settings(results.findings)
    found: list[Lead | None] = []
    if isinstance(question, Sweep):
        kept = [each for each in groups if closeness(each[1], study.needs) >= 1]
        found = [_lead_of(kept, name, -1 if most else 1) for _, name, most in BEST]
    elif isinstance(question, Search):
        seeds = max(1, len(study.seeds))
        kept = [each for each in groups if len(each[1]) == seeds and question.keeps(each[1])]
        found = [_lead_of(kept, question.figure, question.sign)]
    return [each for each in found if each is not None]


def _lead_of(groups: list[Group], figure: str, sign: int) -> Lead | None:
    if len(groups) < 2:
        return None
    (first, runs), *others = sorted(groups, key=lambda each: sign * pooled(each[1], figure))
    gaps = [(settings, gap_of(runs, other, figure, sign)) for settings, other in others]
    last = max((place for place, (_, gap) in enumerate(gaps, 1) if gap.is_alike), default=0)
    alike = gaps[:last]
    following, gap = gaps[0]
    noise = None if gap.noise is None else max((each.noise or 0.0 for _, each in alike), default=gap.noise)
    return Lead(figure, sign, first, following, gap, [settings for settings, _ in alike], noise)


def gap_of(one: Sequence[Finding], other: Sequence[Finding], figure: str, sign: int) -> Gap:
    """Return how much better `one` place is than the `other` by a figure, over the seeds that both have."""
    mine, others = (_by_seed(each, figure) for each in (one, other))
    gaps = [sign * _share(others[seed] - mine[seed], mine[seed], others[seed]) for seed in mine if seed in others]
    lead = fmean(gaps) if gaps else 0.0
    if len(gaps) < 2:
        return Gap(lead, None, len(gaps))
    return Gap(lead, float(stdtrit(len(gaps) - 1, (1 + CONFIDENCE) / 2)) * stdev(gaps) / sqrt(len(gaps)), len(gaps))


def _by_seed(findings: Sequence[Finding], figure: str) -> dict[Any, float]:
    return {finding.point.names.get(SEED): finding.row[figure] for finding in findings}


def _share(gap: float, one: float, other: float) -> float:
    """Return a gap as a share of the larger figure, so that no seed counts for more where all takes longer."""
    return gap / max(abs(one), abs(other)) if one or other else 0.0


def within_noise(noise: float, seeds: int, others: int = 1) -> str:
    """Return in words within what so many `others` are alike with the best."""
    return f"alike within what {seeds} seeds vary, {'up to ' if others > 1 else ''}{percent(noise)}"


def percent(value: float) -> str:
    """Return a share with as many digits as seeds tell of: 2.1 %, 14 %."""
    return f"{value * 100:.{0 if value >= 0.1 else 1}f} %" if value >= 0.001 else "less than 0.1 %"

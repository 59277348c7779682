"""Combinations of settings as a report shows them: each at one load or several, in runs of one seed or several."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from serving.study.axes import LOAD, Settings
from serving.study.point import SEED
from serving.study.questions import pooled, with_all_seeds
from serving.study.report.units import setting
from serving.study.study import Finding

# Settings by which a workload is made heavier: with `load`, what the others are looked at over.
LOADS = (LOAD, *(f"workload.arrivals.{name}" for name in ("rate_per_s", "mean_per_s", "users")))
# As many lines as can be told apart, in colour and without.
MOST = 6


class PlotStyle(NamedTuple):
    """A combination's looks in all pictures. Colours are Okabe and Ito's, which the colour-blind can tell apart; lines
    and markers differ too, for those who print in grey."""

    colour: str
    marker: str
    dash: Any


LOOKS = (
    PlotStyle("#0072b2", "o", "-"),
    PlotStyle("#d55e00", "s", (0, (5, 1.5))),
    PlotStyle("#009e73", "^", (0, (5, 1.5, 1, 1.5))),
    PlotStyle("#cc79a7", "D", (0, (1.2, 1.2))),
    PlotStyle("#e69f00", "v", (0, (5, 1.5, 1, 1.5, 1, 1.5))),
    PlotStyle("#56b4e9", "P", (0, (9, 2))),
)
PLAIN = PlotStyle("#b4bac2", "o", "-")


@dataclass(frozen=True)
class LoadPoint:
    """A combination at a load: its runs, one a seed."""

    settings: Settings
    findings: list[Finding]

    def __getitem__(self, name: str) -> float:
        return pooled(self.findings, name)

    @property
    def load(self) -> tuple[tuple[str, Any], ...]:
        """The settings that determine the load."""
        return tuple((name, value) for name, value in self.settings.items() if name in LOADS)

    @property
    def weight(self) -> tuple[float, float]:
        """The load as it is asked, and as it was offered, to sort by: users who wait for a crowded node ask less."""
        return math.prod(float(value) for _, value in self.load), self["offered_per_s"]

    @property
    def load_label(self) -> str:
        """Return the load in words; "" if all points have one load."""
        return ", ".join(setting(name, value) for name, value in self.load)


@dataclass(frozen=True)
class Combination:
    """Settings without load and seed, their label, and the findings at each load, from the lowest."""

    settings: Settings
    label: str
    ats: list[LoadPoint]
    look: PlotStyle = PLAIN

    @cached_property
    def has_loads(self) -> bool:
        """Tell whether there is a curve to draw."""
        return len(self.ats) > 1


def combinations_of(findings: list[Finding]) -> list[Combination]:
    """Return all combinations that have a point, in the order of the study."""
    groups: dict[str, list[LoadPoint]] = {}
    for settings, group in with_all_seeds(findings):
        groups.setdefault(repr(_beside_load(settings)), []).append(LoadPoint(settings, group))
    # What failed has no figures, but is another combination too.
    asked = [_beside_load(finding.point.names) for finding in findings]
    differs = [name for name in dict.fromkeys(name for each in asked for name in each) if _differs(name, asked)]
    found = []
    for ats in groups.values():
        settings = _beside_load(ats[0].settings)
        found.append(Combination(settings, _label(settings, differs), sorted(ats, key=lambda at: at.weight)))
    return found


def shown_of(
    combinations: list[Combination], rank: Callable[[Combination], Any], most: int = MOST
) -> list[Combination]:
    """Return the best of the combinations, in the order of the study, each with a look of its own."""
    best = sorted(combinations, key=rank)[:most]
    kept = [each for each in combinations if any(each is one for one in best)]
    return [replace(each, look=look) for each, look in zip(kept, LOOKS, strict=False)]


def _beside_load(settings: Settings) -> Settings:
    return {name: value for name, value in settings.items() if name not in (*LOADS, SEED)}


def _differs(name: str, all_of: list[Settings]) -> bool:
    return len({repr(settings.get(name)) for settings in all_of}) > 1


def _label(settings: Settings, names: list[str]) -> str:
    """Return the settings that tell a combination from the others."""
    return ", ".join(setting(name, settings[name]) for name in names if name in settings) or "the scenario"

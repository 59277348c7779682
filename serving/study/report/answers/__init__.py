"""Views of a study's answers: each question has its sentence and its own way to show the answers; here is their common
base."""

from typing import Any, ClassVar, NamedTuple

from serving.study.measures.targets import ATTAINMENT, Targets
from serving.study.questions import closeness
from serving.study.report.combinations import Combination, LoadPoint, shown_of
from serving.study.report.units import listed, seconds, share, short
from serving.study.results import Results
from serving.types import NEVER


class ChosenLoad(NamedTuple):
    """A combination at the one load at which it is looked at more closely."""

    combination: Combination
    at: LoadPoint


class AnswerView:
    """The view of a study's answers. `combinations` are all that were tried, `shown` those with a look of their own,
    `others` the rest."""

    first: ClassVar[str] = "the best"  # what `rank` puts first

    def __init__(self, results: Results, combinations: list[Combination]) -> None:
        self.results, self.study = results, results.study
        self.combinations = combinations
        self.shown = shown_of(combinations, self.rank)
        known = [each.settings for each in self.shown]
        self.others = [each for each in combinations if each.settings not in known]

    @property
    def asked(self) -> str:
        """Return the question in a sentence."""
        raise NotImplementedError

    @property
    def answer(self) -> str:
        """Return the answers as HTML."""
        raise NotImplementedError

    @property
    def share(self) -> float:
        """Return the share of requests that must be within their limits; 0 if percentiles alone are asked for."""
        return self.needs.get(ATTAINMENT, 0.0)

    @property
    def needs(self) -> dict[str, float]:
        """Return the columns of shares that decide whether the targets are kept, each with the least that it may be."""
        return self.study.needs

    @property
    def promise(self) -> str:
        """Return the targets in words."""
        if not self.study.has_targets:
            return "all requests that are served count, as there are no targets"
        targets = self.study.targets
        parts = [f"{each.percentile.title} ≤ {seconds(each.limit_s)}" for each in targets.percentiles]
        return listed(([f"{share(self.share)} of the requests {within(targets)}"] if self.share else []) + parts)

    @property
    def why(self) -> str:
        """Return in words the load at which combinations are looked at more closely; "" if there is one load."""
        common = self._common()
        if not common or len(common) == 1:
            return ""
        at = self._at(self.shown[0], self._load())
        if not self._any_keeps(at.load):
            return f"at {at.load_label}, the lowest, as the targets are kept at none"
        which = "it" if len(self.shown) == 1 else "any of them"
        return f"at {at.load_label}, the highest at which {which} keeps the targets"

    def keeps(self, at: LoadPoint) -> bool:
        """Tell whether it does as is asked."""
        return closeness(at.findings, self.needs) >= 1

    def rank(self, combination: Combination) -> Any:
        """Sort key: the least is shown first where there is no room for all."""
        kept = [at["goodput_per_s"] for at in combination.ats if self.keeps(at)]
        return -max(kept, default=0.0), -max(at["attainment"] for at in combination.ats)

    def choose(self) -> list[ChosenLoad]:
        """Return the combinations to show, all at the same load if they have one in common."""
        return [ChosenLoad(each, self._at(each, self._load())) for each in self.shown]

    def few(self, chosen: list[ChosenLoad], most: int) -> list[ChosenLoad]:
        """Return the best `most` of the chosen combinations."""
        best = sorted(chosen, key=lambda each: self.rank(each.combination))[:most]
        return [each for each in chosen if any(each is one for one in best)]

    def note(self, chosen: list[ChosenLoad], *more: str) -> str:
        """Return the end of a caption: which of the combinations are shown, and at which load."""
        best = [f"{self.first} {len(chosen)}"] if len(chosen) < len(self.combinations) else []
        told = [each for each in (*best, self.why, *more) if each]
        return f" Shown: {', '.join(told)}." if told else ""

    def _at(self, combination: Combination, load: Any) -> LoadPoint:
        kept = [at for at in combination.ats if self.keeps(at)]
        otherwise = kept[-1] if kept else combination.ats[0]
        return next((at for at in combination.ats if at.load == load), otherwise)

    def _common(self) -> list[Any]:
        """Return the loads that all combinations were tried at, from the lowest."""
        if not self.shown:
            return []
        first, *others = self.shown
        of_others = [[at.load for at in each.ats] for each in others]
        return [at.load for at in first.ats if all(at.load in loads for loads in of_others)]

    def _load(self) -> Any:
        common = self._common()
        return next((load for load in reversed(common) if self._any_keeps(load)), common[0] if common else None)

    def _any_keeps(self, load: Any) -> bool:
        return any(self.keeps(at) for each in self.shown for at in each.ats if at.load == load)


def within(targets: Targets) -> str:
    """... have TTFT ≤ 1 s and TPOT ≤ 50 ms."""
    if targets.own:
        return "are served as their SLO class promises"
    names = {"TTFT": targets.ttft_s, "TPOT": targets.tpot_s}
    limits = [f"{name} ≤ {seconds(limit)}" for name, limit in names.items() if limit != NEVER]
    return f"have {listed(limits)}" if limits else "are served"


def varied(names: list[str]) -> str:
    """Return in words what a study varies."""
    return listed(short(name) for name in names)

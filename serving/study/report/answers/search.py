"""Search: the best place, and how what was looked for lies over all places that were tried."""

from itertools import accumulate
from math import isfinite
from typing import Any

from serving.study.point import VARIANT
from serving.study.questions import with_all_seeds
from serving.study.questions.lead import LEAD
from serving.study.questions.search import FIGURES, Search
from serving.study.report.answers import AnswerView, ChosenLoad, varied
from serving.study.report.answers.trials import Trial, trials_picture
from serving.study.report.combinations import Combination, LoadPoint
from serving.study.report.markup import figure, paragraph, points_table
from serving.study.report.units import bound, listed, words
from serving.study.summary import Row

BEST = 4


class SearchAnswerView(AnswerView):
    """The view of `search`: the best places."""

    @property
    def _search(self) -> Search:
        assert isinstance(self.study.question, Search)
        return self.study.question

    @property
    def _names(self) -> list[str]:
        return [VARIANT] * bool(self.study.variants) + list(self.study.axes)

    @property
    def asked(self) -> str:
        """Return the question in words."""
        what = "most" if self._search.sign < 0 else "least"
        bounds = f" with {self.promise}" if self._search.constraints else ""
        return f"Search: the {what} {words(self._search.figure)}{bounds}, over {varied(self._names)}."

    @property
    def promise(self) -> str:
        """Return the constraints in words."""
        bounds = [
            f"{words(name)} {'≤' if sign > 0 else '≥'} {bound(name, limit)}"
            for name, sign, limit in self._search.constraints
        ]
        return listed(bounds) if bounds else "all that is asked: there are no constraints"

    @property
    def why(self) -> str:
        """Return in words why each combination is looked at where it is best."""
        return ""

    def keeps(self, at: LoadPoint) -> bool:
        """Tell whether all constraints are kept."""
        return self._search.keeps(at.findings)

    def _order(self, at: LoadPoint) -> tuple[float, float]:
        return self._search.rank(at.findings)

    def rank(self, combination: Combination) -> Any:
        """Sort key: a combination's best place."""
        return min(map(self._order, combination.ats))

    def choose(self) -> list[ChosenLoad]:
        """Return a few combinations, each where it is best."""
        best = sorted(map(self.rank, self.shown))[:BEST]
        return [ChosenLoad(each, min(each.ats, key=self._order)) for each in self.shown if self.rank(each) in best]

    @property
    def answer(self) -> str:
        """Return the answer as HTML."""
        rows = self.results.answer_rows
        row: Row = rows[0] if rows else {"error": "nothing was tried."}
        if row.get("error"):
            return paragraph(f"There is no answer: {row['error']}")
        name, trials = self._search.figure, self._trials()
        kept = "It keeps" if row["kept"] else "It is nearest to keeping"
        # Of places that serve nobody none is nearer than the others.
        told = paragraph(f"{kept} {self.promise}.") if name in row else ""
        names = [*self._names, name, *(each.name for each in self._search.constraints)]
        return (
            told
            + points_table(self.results.told_rows, [*names, *FIGURES, *self.study.asked_figures, LEAD, "caveats"])
            + (figure(trials_picture(name, trials, list(filter(self._differs, self._names)))) if trials else "")
        )

    def _better(self, one: LoadPoint, other: LoadPoint) -> LoadPoint:
        return min(one, other, key=self._order)

    def _differs(self, name: str) -> bool:
        return len({repr(finding.point.names[name]) for finding in self.results.findings if not finding.error}) > 1

    def _trials(self) -> list[Trial]:
        groups = with_all_seeds(self.results.findings)
        # One that serves nobody has no figure to be drawn.
        tried = [at for each in groups if isfinite(self._order(at := LoadPoint(*each))[1])]
        best = accumulate(tried, self._better)
        name = self._search.figure
        return [
            Trial(at.settings, at[name], self.keeps(at), so_far[name] if self.keeps(so_far) else None)
            for at, so_far in zip(tried, best, strict=True)
        ]

"""Capacity: a bar for each combination, as long as the load that it holds."""

from typing import Any

from serving.study.axes import LOAD
from serving.study.point import VARIANT
from serving.study.questions.capacity import FIGURES
from serving.study.questions.lead import LEAD
from serving.study.report.answers import AnswerView, ChosenLoad, varied
from serving.study.report.answers.bars import bars_picture
from serving.study.report.combinations import Combination, LoadPoint
from serving.study.report.markup import figure, paragraph, points_table
from serving.study.report.seed_range import with_seed_range
from serving.study.summary import Row, is_figure

# Columns of an answer that are neither a setting nor a figure, and come last.
OTHERS = ("limit", LEAD, "caveats", "error")


class CapacityAnswerView(AnswerView):
    """The view of `capacity`: combinations by the load that they hold."""

    @property
    def asked(self) -> str:
        """Return the question in words."""
        of = varied(list(self.study.axes) + [VARIANT] * bool(self.study.variants))
        each = f", for each combination of {of}" if of else ""
        return f"Capacity: the highest load at which {self.promise}{each}."

    @property
    def why(self) -> str:
        """Return in words the load at which combinations are looked at more closely."""
        return "each at the highest load that it holds"

    def rank(self, combination: Combination) -> Any:
        """Sort key: the combination that holds most comes first."""
        at = self._held(combination)
        return -at["offered_per_s"] if at else 0.0

    def choose(self) -> list[ChosenLoad]:
        """Return the combinations to show, each at the load that it holds."""
        held = [(each, self._held(each)) for each in self.shown]
        return [ChosenLoad(each, at) for each, at in held if at]

    def _held(self, combination: Combination) -> LoadPoint | None:
        row = next((row for row in self.results.answer_rows if _is_of(row, combination)), {})
        return next((at for at in combination.ats if at.settings[LOAD] == row.get(LOAD)), None)

    @property
    def answer(self) -> str:
        """Return the answer as HTML."""
        rows = with_seed_range(self.results.told_rows)
        names = dict.fromkeys(name for row in rows for name in row if not (is_figure(name) or name in OTHERS))
        columns = [*names, *FIGURES, *self.study.asked_figures, *OTHERS]
        shown = points_table(rows, columns)
        held = [row for row in self.results.answer_rows if row.get(LOAD)]
        if not held:
            return shown
        none = sum(row.get(LOAD) == 0 for row in rows)
        lacking = paragraph(f"Without a bar: {none} that hold no load that was tried.") if none else ""
        return (figure(bars_picture(held)) + lacking if len(held) > 1 else "") + shown


def _is_of(row: Row, combination: Combination) -> bool:
    return all(row.get(name) == value for name, value in combination.settings.items())

"""Sweep: the best of the combinations that keep their targets."""

from serving.study.point import VARIANT
from serving.study.questions.lead import LEAD
from serving.study.questions.sweep import SHOWN
from serving.study.report.answers import AnswerView, varied
from serving.study.report.markup import paragraph, points_table
from serving.study.report.seed_range import all_seeds
from serving.study.summary import is_figure


class SweepAnswerView(AnswerView):
    """The view of `sweep`: the best of all combinations."""

    @property
    def asked(self) -> str:
        """Return the question in words."""
        of = varied(list(self.study.axes) + [VARIANT] * bool(self.study.variants))
        each = f"what comes of each combination of {of}" if of else "what comes of the scenario as it stands"
        return f"Sweep: {each}, and which of them keep their targets: {self.promise}."

    @property
    def answer(self) -> str:
        """Return the answer as HTML."""
        rows = self.results.answer_rows
        if not rows:
            return paragraph(f"No combination keeps the targets{all_seeds(self.results)}: {self.promise}.")
        settings = dict.fromkeys(name for row in rows for name in row if not is_figure(name))
        return points_table(self.results.told_rows, [*settings, *SHOWN, *self.study.asked_figures, LEAD, "caveats"])

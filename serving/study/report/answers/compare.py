"""Compare: how many times the baseline's each figure of a variant is, and how far that differs from seed to seed."""

from functools import cached_property
from html import escape
from math import isfinite, nan
from typing import Any

from serving.study.point import VARIANT
from serving.study.questions.compare import Compare, figures_of, is_comparable
from serving.study.report.answers import AnswerView
from serving.study.report.answers.ratios import place, ratios_picture, settings_of
from serving.study.report.combinations import Combination
from serving.study.report.markup import column, figure, table
from serving.study.report.units import listed, scale, setting, times, words
from serving.study.summary import Row


class CompareAnswerView(AnswerView):
    """The view of `compare`: variants side by side."""

    first = "the first"

    @property
    def _baseline(self) -> str:
        assert isinstance(self.study.question, Compare)
        return self.study.question.baseline

    @property
    def asked(self) -> str:
        """Return the question in words."""
        others = listed(name for name in self.study.variants if name != self._baseline)
        seeds = f", with seeds {listed(map(str, self.study.seeds))}" if self.study.seeds else ""
        return f"Compare: {others} beside {self._baseline}, under the same requests{seeds}."

    def rank(self, combination: Combination) -> Any:
        """Sort key: all variants of a place, before those of the next."""
        return self._ranks[repr(combination.settings)]

    @cached_property
    def _ranks(self) -> dict[str, tuple[int, int]]:
        """The rank of each combination's settings."""
        places: dict[Any, int] = {}
        return {
            repr(each.settings): (places.setdefault(place(each.settings), order), order)
            for order, each in enumerate(self.combinations)
        }

    @property
    def answer(self) -> str:
        """Return the answer as HTML."""
        rows = self.results.answer_rows
        others = [row for row in rows if row[VARIANT] != self._baseline]
        if not others:
            return "<p>Nothing can be compared: points that it takes have failed.</p>"
        if not any(map(is_comparable, others)):
            return (
                f"<p>Nothing can be compared: either {escape(self._baseline)} serves nobody, or the others don't.</p>"
                + self._table(rows)
            )
        seeds, known = len(self.study.seeds) > 1, [row for row in rows if is_comparable(row)]
        return figure(ratios_picture(known, self._baseline, list(self.study.variants), seeds)) + self._table(rows)

    def _table(self, rows: list[Row]) -> str:
        names = list(settings_of(rows[0]))
        scales = {name: scale(name, [row.get(name) for row in rows]) for name in figures_of(rows)}
        heads = [escape(name) for name in names]
        heads += [f"{escape(words(name))} <small>{of.unit}</small>" for name, of in scales.items()]
        head, caveats = column("caveats", [row["caveats"] for row in self.results.told_rows])
        cells = [
            [f"<td>{escape(setting('', row[name]))}</td>" for name in names]
            + [f"<td class=n>{of.number(row.get(name))}{self._ratio(row, name)}</td>" for name, of in scales.items()]
            + [remark]
            for row, remark in zip(rows, caveats, strict=True)
        ]
        return table([*heads, head], cells)

    def _ratio(self, row: Row, name: str) -> str:
        if row[VARIANT] == self._baseline or not isfinite(row.get(f"{name} /base", nan)):
            return ""
        least, most = (row.get(f"{name} /base {end}") for end in ("least", "most"))
        seeds = "" if least is None or most is None else f"<br><small>{times(least)} to {times(most)}</small>"
        return f"<br>&times;{times(row[f'{name} /base'])}{seeds}"

"""Capacity: a bar for each combination, as long as the load that it holds."""

from typing import Any

from matplotlib.figure import Figure

from serving.study.axes import LOAD
from serving.study.questions.capacity import FIGURES, Capacity
from serving.study.report.answers import Chosen, Teller, varied, within
from serving.study.report.combinations import At, Combination
from serving.study.report.ink import DIM, drawn
from serving.study.report.markup import Picture, figure, paragraph, points_table
from serving.study.report.units import scale, setting, share
from serving.study.summary import Row

MOST_BARS = 40


class CapacityTeller(Teller):
    """See `Teller`."""

    @property
    def asked(self) -> str:
        """See `Teller`."""
        of = varied(list(self.study.axes) + ["variant"] * bool(self.study.variants))
        each = f", for each combination of {of}" if of else ""
        return f"Capacity: the highest load at which {share(self.share)} of the requests {self._within}{each}."

    @property
    def _within(self) -> str:
        return within(self.study.targets)

    @property
    def share(self) -> float:
        """See `Teller`."""
        assert isinstance(self.study.question, Capacity)
        return self.study.question.attainment

    @property
    def why(self) -> str:
        """See `Teller`."""
        return "each at the highest load that it holds"

    def rank(self, combination: Combination) -> Any:
        """See `Teller`: the one that holds most comes first."""
        at = self._held(combination)
        return -at["offered_per_s"] if at else 0.0

    def choose(self) -> list[Chosen]:
        """See `Teller`: each at what it holds."""
        held = [(each, self._held(each)) for each in self.shown]
        return [Chosen(each, at) for each, at in held if at]

    def _held(self, combination: Combination) -> At | None:
        row = next((row for row in self.results.answer_rows if _is_of(row, combination)), {})
        return next((at for at in combination.ats if at.settings[LOAD] == row.get(LOAD)), None)

    @property
    def answer(self) -> str:
        """See `Teller`."""
        rows = self.results.answer_rows
        names = [*dict.fromkeys(name for row in rows for name in row if name not in (*FIGURES, "limit", "error"))]
        shown = points_table(rows, [*names, *FIGURES, "limit", "error"])
        held = [row for row in rows if row.get(LOAD)]
        if not held:
            return paragraph("No combination holds any load that was tried.") + shown
        return (figure(_bars(held[:MOST_BARS], len(held))) if len(held) > 1 else "") + shown


def _is_of(row: Row, combination: Combination) -> bool:
    return all(row.get(name) == value for name, value in combination.settings.items())


def _bars(rows: list[Row], of: int) -> Picture:
    names = [name for name in rows[0] if name not in (*FIGURES, LOAD, "limit", "error")]
    labels = [", ".join(setting(name, row[name]) for name in names) for row in rows]
    of_load = scale("offered_per_s", [row["offered_per_s"] for row in rows])

    def draw(canvas: Figure) -> None:
        panel = canvas.subplots()
        at = range(len(rows))
        loads = [row["offered_per_s"] for row in rows]
        hatches = ["////" if _at_least(row) else "" for row in rows]
        panel.barh(at, loads, 0.62, color=["white" if hatch else "#0072b2" for hatch in hatches], edgecolor="#0072b2")
        for index, (row, hatch) in enumerate(zip(rows, hatches, strict=True)):
            panel.patches[index].set_hatch(hatch)
            least = "at least " if hatch else ""
            note = "" if hatch else f", then {row['limit']} is missed"
            words = f"{least}{of_load.text(loads[index])}{note}"
            panel.annotate(words, (loads[index], index), (5, 0), textcoords="offset points", va="center")
        panel.set_yticks(list(at), labels)
        panel.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, max(loads) * 1.45), xlabel=f"offered load, {of_load.unit}")
        panel.grid(False, axis="y")
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_color(DIM)

    unknown = " Hatched: the load was not found, and is at least so much." if any(map(_at_least, rows)) else ""
    left = f" The first {len(rows)} of {of}." if of > len(rows) else ""
    caption = f"How much load each combination holds: the longer the bar, the more requests a second.{unknown}{left}"
    title = "The load that each combination holds"
    return Picture("capacity", title, caption, drawn("capacity", title, 0.55 + 0.24 * len(rows), draw))


def _at_least(row: Row) -> bool:
    return str(row.get("limit", "")).startswith("not reached")

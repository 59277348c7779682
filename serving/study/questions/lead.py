"""Lead: by how much the best place of a study is ahead of the next ones, beyond what seeds vary.

`serving.simulation.seed_noise` has the rule. Of a capacity each seed has what it holds alone, which is known to the
study's tolerance, and leads that are no larger are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from serving.simulation.seed_noise import BySeed, Gap, gap_between, percent, ranking
from serving.study.axes import LOAD, Settings
from serving.study.point import SEED
from serving.study.questions import by_settings, closeness, has_figure, pooled, with_all_seeds
from serving.study.questions.capacity import Capacity, held_by_seed, held_figure, is_beyond, is_short
from serving.study.questions.search import Search
from serving.study.questions.sweep import BEST, Sweep
from serving.study.study import Finding, Study
from serving.study.summary import Row, is_figure

LEAD = "lead"
WINNER, TIE, ONE_SEED = "first", "tie", "one seed"
# Beside its settings and figures, what a row of capacities has.
BESIDE = (LOAD, "users", "limit", "error")

Group = tuple[Settings, list[Finding]]


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

    def has(self, row: Row) -> bool:
        """Tell whether an answer's row is of the first place, or of one that can't be told from it."""
        return any(all(row.get(name) == value for name, value in each.items()) for each in (self.first, *self.alike))

    def __str__(self) -> str:
        if self.alike:
            return f"{TIE} within {percent(self.noise)}" if self.noise else TIE
        return f"{WINNER if self.noise is not None else ONE_SEED}, by {percent(self.gap.lead)}"


def leads(study: Study, findings: list[Finding], rows: list[Row]) -> list[Lead]:
    """Return the lead of each winner that a study names in the `rows` of its answer: of a sweep by goodput and by
    energy, of a search by its figure, of capacities by what is held. Of other questions, and where no other place does
    as is asked, there is none."""
    question = study.question
    groups = by_settings(findings)
    found: list[Lead | None] = []
    if isinstance(question, Sweep):
        kept = [each for each in with_all_seeds(findings) if closeness(each[1], study.needs) >= 1]
        found = [_lead_of(kept, name, -1 if most else 1) for _, name, most in BEST]
    elif isinstance(question, Search):
        seeds = max(1, len(study.seeds))
        kept = [each for each in groups if len(each[1]) == seeds and question.keeps(each[1])]
        found = [_lead_of(kept, question.figure, question.sign)]
    elif isinstance(question, Capacity):
        found = [_lead_of_capacity(study, question, findings, ranked(rows))]
    return [each for each in found if each is not None]


def lead_column(study: Study, findings: list[Finding], rows: list[Row]) -> list[str]:
    """Return for each row of an answer what its lead is in a few words: "first, by 14 %", "tie within 2.1 %", or "one
    seed, by 14 %", which can't tell. "" of a row that is no winner, or that is alone."""
    found = leads(study, findings, rows)
    if isinstance(study.question, Capacity):
        return [str(found[0]) if found and row in ranked(rows) and found[0].has(row) else "" for row in rows]
    by_figure = {lead.figure: str(lead) for lead in found}
    if isinstance(study.question, Sweep):
        figures = {label: name for label, name, _ in BEST}
        return [by_figure.get(figures[row["best by"]], "") for row in rows]
    return [next(iter(by_figure.values()), "") if row.get("kept") else "" for row in rows]


def ranked(rows: list[Row]) -> list[Row]:
    """Return the capacities that can be told from each other, the most first: not those of a workload that is too
    short, nor those that hold every load that was tried, unless it is one that holds the most in any case."""
    held = sorted((row for row in rows if row.get(LOAD) and not is_short(row)), key=held_by, reverse=True)
    beyond = [row for row in held if is_beyond(row)]
    known = [row for row in held if row not in beyond]
    alone = len(beyond) == 1 and all(held_by(beyond[0]) > held_by(row) for row in known)
    return [*beyond, *known] if alone else known


def held_by(row: Row) -> float:
    """Return what a capacity's row holds."""
    return float(row[held_figure(row)])


def _lead_of(groups: list[Group], figure: str, sign: int) -> Lead | None:
    if len(groups) < 2:
        return None
    best = sorted(groups, key=lambda each: sign * pooled(each[1], figure))
    found = ranking([(settings, _by_seed(runs, figure)) for settings, runs in best], sign)
    return Lead(figure, sign, *found)


def _lead_of_capacity(study: Study, question: Capacity, findings: list[Finding], rows: list[Row]) -> Lead | None:
    if len(rows) < 2:
        return None
    places = [(_place_of(row), held_by_seed(study, row, findings)) for row in rows]
    return Lead(held_figure(rows[0]), -1, *ranking(places, -1, question.tolerance))


def _place_of(row: Row) -> Settings:
    return {name: value for name, value in row.items() if not is_figure(name) and name not in BESIDE}


def gap_of(one: Sequence[Finding], other: Sequence[Finding], figure: str, sign: int) -> Gap:
    """Return how much better `one` place is than the `other` by a figure, over the seeds that both have."""
    return gap_between(_by_seed(one, figure), _by_seed(other, figure), sign)


def _by_seed(findings: Sequence[Finding], figure: str) -> BySeed:
    return {each.point.names.get(SEED): each.row[figure] for each in findings if has_figure(each.row, figure)}

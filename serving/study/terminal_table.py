"""Answers of a study as JSON, and as a table for a narrow terminal: the figures that matter, in their units."""

from collections.abc import Callable, Collection, Iterator
from math import isfinite
from typing import Any

from rich.console import Console

from serving.presentation.digits import digits
from serving.presentation.table import Table
from serving.study.caveats import caveats
from serving.study.measures.percentiles import percentile_of
from serving.study.point import shown
from serving.study.questions.lead import LEAD
from serving.study.questions.search import Search
from serving.study.report.answer_sentence import answer_sentence
from serving.study.report.mode_verdict import mode_verdict
from serving.study.report.seed_range import all_seeds, with_seed_range
from serving.study.results import Results
from serving.study.store import point_row
from serving.study.summary import Row, is_figure


def duration(seconds: float) -> str:
    """Seconds for people."""
    return f"{seconds:.2f} s" if seconds >= 0.9995 else f"{digits(seconds * 1000, 3)} ms"


def figure(value: float) -> str:
    """Three digits of a number, and never in scientific notation."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else digits(value, 3)


# What a table has of a run's figures: its title and how it is written.
FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "offered_per_s": ("req/s", figure),
    "attainment": ("SLO", lambda value: f"{value:.1%}"),
    "goodput_per_s": ("good/s", figure),
    "ttft_mean_s": ("TTFT", duration),
    "ttft_p99_s": ("TTFT p99", duration),
    "tpot_mean_s": ("TPOT", duration),
    "tpot_p99_s": ("TPOT p99", duration),
    "tokens_per_s": ("tokens/s", lambda value: f"{value:,.0f}"),
    "j_per_token": ("mJ/tok", lambda value: figure(value * 1000)),
    "cost_per_million_tokens": ("cost/Mtok", figure),
    "cost_per_user_month": ("/user/month", figure),
}
BASE = " /base"
HIDDEN, CAVEATS = "point", "caveats"
# Shown if there are any.
REMARKS = ("error", CAVEATS)
MOST_SHOWN = 40


def to_json(results: Results) -> dict[str, Any]:
    """Return the `answer` in a sentence, `answers` and `points`, a row each, the `leads` of winners that it names, the
    `verdict` on modes, if any, and the `caveats` of the answers."""
    points = [point_row(finding) for finding in results.findings]
    return {
        "answer": answer_sentence(results),
        "answers": results.told_rows,
        "leads": [lead.told for lead in results.leads],
        "verdict": mode_verdict(results),
        "points": points,
        "caveats": caveats(results),
    }


def show(results: Results, console: Console) -> None:
    """Print the answers; if there are none, the points."""
    points = [point_row(finding) for finding in results.findings]
    made = [row for row in points if not row["error"]]
    console.print(results.study.title, style="bold", highlight=False, markup=False)
    if not made:
        console.print(f"None of {len(points)} points could be made.")
        return
    if not results.answer_rows:
        console.print(f"No combination keeps its targets{all_seeds(results)}. The first of {len(made)} points:")
    if not results.study.has_targets:
        console.print("There are no targets (`slo`, or classes that requests name), so whoever is served keeps them.")
    for sentence in filter(None, (answer_sentence(results),)):
        console.print(sentence, highlight=False, markup=False)
    console.print(table_of(results.told_rows or made[:MOST_SHOWN], results.study.asked_figures))
    for sentence in _sentences(results):
        console.print(sentence, highlight=False, markup=False)


def _sentences(results: Results) -> Iterator[str]:
    """Yield what is to be known beside the table."""
    if results.study.cost:
        yield str(results.study.cost)
    if verdict := mode_verdict(results):
        yield verdict
    question = results.study.question
    if isinstance(question, Search) and any(question.figure in row and not row["kept"] for row in results.answer_rows):
        yield "No place keeps all bounds (`where`): this is the one that is closest."
    yield from caveats(results)


def table_of(rows: list[Row], asked: Collection[str] = ()) -> Table:
    """Return a table of answers, or of points, with the figures that are `asked` for beside the usual ones. Of a
    comparison it has each figure as a multiple of the baseline's."""
    rows = with_seed_range(rows)
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if _is_shown(name, rows, asked)]
    names.sort(key=(LEAD, CAVEATS).count)  # These are long, and come last.
    heads = [_head(name.removesuffix(BASE)) for name in names]
    words = [i for i, name in enumerate(names) if not all(isinstance(row.get(name, 0.0), int | float) for row in rows)]
    return Table(heads, [[_cell(name, row.get(name, "")) for name in names] for row in rows], words=words)


def _head(name: str) -> str:
    percentile = percentile_of(name)
    return FIGURES[name][0] if name in FIGURES else percentile.title if percentile else name


def _is_shown(name: str, rows: list[Row], asked: Collection[str]) -> bool:
    """Tell whether a column is shown: settings always; of a comparison the multiples alone, of other tables the usual
    figures."""
    if name == HIDDEN or (name in REMARKS and not any(row.get(name) for row in rows)):
        return False
    if name.endswith(("least", "most")) and BASE in name:
        return False
    if any(key.endswith(BASE) for row in rows for key in row):
        return name.endswith(BASE) or not is_figure(name)
    return name in FIGURES or name in asked or not (is_figure(name) or name == "wall_s")


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    if name in FIGURES:
        return FIGURES[name][1](value)
    if percentile_of(name):
        return duration(value)
    if name.endswith(BASE):
        return f"x {value:.3f}" if isfinite(value) else "-"
    return shown(value)

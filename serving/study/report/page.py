"""The page: the question, its answer, the pictures that make sense for this study, tables, and how to repeat it."""

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from string import Template

from serving.study.caveats import caveats
from serving.study.point import SEED
from serving.study.questions.capacity import Capacity
from serving.study.questions.compare import Compare
from serving.study.questions.search import Search
from serving.study.questions.sweep import Sweep
from serving.study.report.answer_sentence import answer_sentence
from serving.study.report.answers import AnswerView
from serving.study.report.answers.capacity import CapacityAnswerView
from serving.study.report.answers.compare import CompareAnswerView
from serving.study.report.answers.search import SearchAnswerView
from serving.study.report.answers.sweep import SweepAnswerView
from serving.study.report.combinations import LOADS, combinations_of
from serving.study.report.latencies import latencies_picture
from serving.study.report.load import load_picture
from serving.study.report.markup import Picture, figure, paragraph, points_table
from serving.study.report.mode_verdict import mode_verdict
from serving.study.report.overtime import experts_picture, modes_picture
from serving.study.report.pareto import pareto_picture
from serving.study.report.repeat import repeat
from serving.study.results import Results
from serving.study.store import point_row

ANSWER_VIEWS: dict[type, type[AnswerView]] = {
    Capacity: CapacityAnswerView,
    Compare: CompareAnswerView,
    Search: SearchAnswerView,
    Sweep: SweepAnswerView,
}
COLUMNS = (
    *("offered_per_s", "attainment", "goodput_per_s", "ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s"),
    *("e2e_p99_s", "tokens_per_s", "j_per_token", "batch_mean", "sd_share", "hit_rate"),
)
MOST_ROWS = 500
MOST_FAILED = 20


def page(results: Results) -> str:
    """Return the page as HTML."""
    view = ANSWER_VIEWS[type(results.study.question)](results, combinations_of(results.findings))
    sections = {
        "title": escape(results.study.title),
        "asked": escape(view.asked),
        "failed": _interrupted(results) + _failed(results),
        "answer": "\n".join([_said(results) + view.answer, *map(paragraph, [*_prices(results), *caveats(results)])]),
        "figures": "\n".join(figure(picture) for picture in _pictures(view)),
        "points": _points(view),
        "repeat": repeat(results),
    }
    template = files("serving.study.report").joinpath("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(sections)


def _said(results: Results) -> str:
    """Return the answer in sentences, as HTML."""
    sentence, verdict = answer_sentence(results), mode_verdict(results)
    return (paragraph(sentence, "best") if sentence else "") + (paragraph(verdict) if verdict else "")


def _prices(results: Results) -> list[str]:
    return [str(results.study.cost)] if results.study.cost else []


def _pictures(view: AnswerView) -> Iterator[Picture]:
    # Where nobody asked for anything, or all were refused, nothing was done.
    chosen = [each for each in view.choose() if each.at["steps"]]
    found = (
        load_picture(view),
        latencies_picture(view, chosen),
        pareto_picture(view),
        modes_picture(view, chosen),
        experts_picture(view, chosen),
    )
    return (picture for picture in found if picture)


def _interrupted(results: Results) -> str:
    """Return as HTML that the points are not all, placed where nobody overlooks it."""
    if results.complete:
        return ""
    told = f"It was interrupted after {len(results.findings)} points; run again, it makes the rest."
    return f'<section class="failed">{paragraph(told)}</section>'


def _failed(results: Results) -> str:
    """Return a list of failed points as HTML, placed where nobody overlooks it."""
    if not results.failed:
        return ""
    lines = [f"<li><b>{escape(str(point))}</b>: {escape(error)}</li>" for point, error in results.failed[:MOST_FAILED]]
    more = len(results.failed) - len(lines)
    rest = paragraph(f"And {more} more: column `error` of points.csv names them.") if more else ""
    count = f"{len(results.failed)} of {len(results.findings)} points failed"
    return f'<section class="failed"><h2>{count}</h2><ul>{"".join(lines)}</ul>{rest}</section>'


def _points(view: AnswerView) -> str:
    """Return a table of points as HTML, by combination and load; failed ones at the end."""
    made = [finding for each in view.combinations for at in each.ats for finding in at.findings]
    failed = [finding for finding in view.results.findings if finding.error]
    rows = [point_row(finding) for finding in [*made, *failed][:MOST_ROWS]]
    names = dict.fromkeys(name for finding in [*made, *failed] for name in finding.point.names)
    settings = sorted(names, key=lambda name: (name in LOADS) + 2 * (name == SEED))
    first = f"The first {MOST_ROWS} of {len(made) + len(failed)}. " if len(made) + len(failed) > MOST_ROWS else ""
    told = paragraph(f"{first}All figures of all points are in points.csv, in the folder that this page was made in.")
    more = (*view.study.asked_figures, *(each.figure for each in view.study.percentiles))
    return told + points_table(rows, [*settings, *COLUMNS, *more, "caveats", *(["error"] if failed else [])], "sort")

"""Studies from Python: the points as typed rows and as columns."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from serving.notebook.columns import Columns, columns_of
from serving.notebook.whole import whole_or_none
from serving.study.caveats import caveats
from serving.study.report.answer_sentence import answer_sentence
from serving.study.report.mode_verdict import mode_verdict
from serving.study.results import Results
from serving.study.runner import run_study
from serving.study.spec import load_study
from serving.study.store import caveats_of
from serving.study.study import Study
from serving.study.summary import Row

RESULTS = Path("results")


class StudyPoint(NamedTuple):
    """A point of a study: the settings that tell it from others, its figures by name (README.md of `serving.study` says
    what each is) and its caveats; or the error why there are none."""

    settings: dict[str, Any]
    figures: dict[str, float]
    caveats: str
    error: str


class StudyResult(NamedTuple):
    """What a study found: its `answer` in a sentence, the `verdict` on modes ("" where none are compared), the
    `answers` as rows, all points, the `caveats` in sentences, and the page of its `report`. Not `complete`: Ctrl-C
    ended it, and these are the points that were made by then."""

    answer: str
    verdict: str
    answers: list[Row]
    rows: list[StudyPoint]
    caveats: list[str]
    report: Path
    complete: bool

    @property
    def columns(self) -> Columns:
        """Return settings and figures of all points that were made."""
        made = [row for row in self.rows if not row.error]
        return columns_of([row.settings | row.figures | {"caveats": row.caveats} for row in made])


def study(
    source: Path | str | Study, requests: int | None = None, out: Path | str | None = None, cores: int | None = None
) -> StudyResult:
    """Run a study, by its file or as `load_study` returns it, with at most so many `requests` in each run; keep it in
    the folder `out` (results/NAME), as `foreserve study` does, with whose points it goes on.

    Raise UsageError for a file that is wrong, and for `requests` or `cores` that are no whole number of at least 1.
    """
    requests, cores = whole_or_none("requests", requests), whole_or_none("cores", cores)
    asked = source if isinstance(source, Study) else load_study(Path(source), requests)
    if requests is not None:
        asked = replace(asked, requests=requests)
    results = run_study(asked, out or RESULTS / asked.name, cores, until_interrupted=True)
    return StudyResult(
        answer=answer_sentence(results),
        verdict=mode_verdict(results),
        answers=results.told_rows,
        rows=points_of(results),
        caveats=caveats(results),
        report=results.report,
        complete=results.complete,
    )


def points_of(results: Results) -> list[StudyPoint]:
    """Return the points of a study, in its order."""
    return [StudyPoint(dict(each.point.names), each.row, caveats_of([each]), each.error) for each in results.findings]

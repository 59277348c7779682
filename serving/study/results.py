"""The results of a study, as data frames and as the files of its folder."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from serving.study.point import Point
from serving.study.questions.lead import LEAD, Lead, lead_column, leads
from serving.study.store import Store, answer_row, point_row
from serving.study.study import Finding, Study
from serving.study.summary import Row

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Results:
    """`answers` to the study's question; its `points`, a row each, of those that were made; `failed`: the others, with
    the reason; and `requests` and `timeline`, whose column `point` is that of `points`. Not `complete`: Ctrl-C ended it
    before all points were made."""

    study: Study
    folder: Path
    answer_rows: list[Row]
    findings: list[Finding] = field(repr=False)
    complete: bool = True

    @classmethod
    def write(
        cls, study: Study, store: Store, answers: list[Row], findings: list[Finding], complete: bool = True
    ) -> "Results":
        """Write the tables into the study's folder."""
        found = cls(study, store.folder, answers, findings, complete)
        store.write_tables(findings, found.told_rows)
        return found

    @property
    def failed(self) -> list[tuple[Point, str]]:
        """Points that failed, each with a sentence that says why."""
        return [(finding.point, finding.error) for finding in self.findings if finding.error]

    @cached_property
    def told_rows(self) -> list[Row]:
        """The answers, with their leads, if any has one, each with the caveats of the points that it is made of."""
        told = lead_column(self.study, self.findings, self.answer_rows)
        column = [{LEAD: each} if any(told) else {} for each in told]
        return [answer_row(row | lead, self.findings) for row, lead in zip(self.answer_rows, column, strict=True)]

    @cached_property
    def leads(self) -> list[Lead]:
        """The leads of the winners that the answers name."""
        return leads(self.study, self.findings, self.answer_rows)

    @property
    def report(self) -> Path:
        """A page that needs no other file."""
        return self.folder / "report.html"

    @cached_property
    def answers(self) -> "pd.DataFrame":
        """The answers, with their caveats."""
        import pandas as pd

        return pd.DataFrame(self.told_rows)

    @cached_property
    def points(self) -> "pd.DataFrame":
        """Return one row a point: its settings and figures (`serving.study.summary.COLUMNS`)."""
        import pandas as pd

        return pd.DataFrame([point_row(finding) for finding in self.findings if not finding.error])

    @cached_property
    def requests(self) -> "pd.DataFrame":
        """Return one row a request of each point."""
        frame: pd.DataFrame = pq.read_table(self.folder / "requests.parquet").to_pandas()
        return frame

    @cached_property
    def timeline(self) -> "pd.DataFrame":
        """Return one row a bin of time, of all devices together, for each point (`serving.study.timeline`)."""
        frame: pd.DataFrame = pq.read_table(self.folder / "timeline.parquet").to_pandas()
        return frame

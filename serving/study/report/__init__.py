"""The report of a study: one page that opens from disk, without a network and without any other file.

`page` puts it together of `answers` (what each question has to tell), of pictures (`load`, `latencies`, `pareto`,
`overtime`), which `svg` draws, and of tables (`markup`, `units`). What they show are `combinations`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serving.study.results import Results


def write_report(results: "Results") -> None:
    """Write the report as one page. Equal results make an equal page, to the byte."""
    # Matplotlib is loaded by those who draw.
    from serving.study.report.page import page

    results.report.write_text(page(results), encoding="utf-8")

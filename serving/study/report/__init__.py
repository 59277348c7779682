"""The report of a study."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serving.study.results import Results


def write_report(results: "Results") -> None:
    """As one page."""

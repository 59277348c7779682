"""What a study can ask. A question makes inquiries; each asks for points, some at a time, until it has its answer.

An inquiry is a generator: it yields points, is sent what came of them (in their order), and returns its answer, a row.
So what is asked next may follow from what was found, and many inquiries can be under way at once.
"""

from collections.abc import Iterator
from typing import Any

from serving.study.axes import Settings, combinations
from serving.study.point import SEED, VARIANT, Point
from serving.study.points import points_of
from serving.study.study import Finding, Inquiry, Study
from serving.study.summary import Row
from serving.workload.table import Table


class EveryPoint:
    """What questions have in common that ask for each combination once, with each seed."""

    __slots__ = ()

    def check(self, study: Study, table: Table) -> None:
        """Each study can be asked for all of it."""

    def inquiries(self, study: Study) -> list[Inquiry]:
        """One for each point."""
        return [_ask(point) for settings in settings_of(study) for point in points_of(study, settings)]

    def expected(self, study: Study) -> int:
        """All of them."""
        return len(self.inquiries(study))


def _ask(point: Point) -> Inquiry:
    yield [point]
    return None


def settings_of(study: Study) -> Iterator[Settings]:
    """Each variant in each place on the axes."""
    variants: list[Settings] = [{VARIANT: name} for name in study.variants] or [{}]
    for variant in variants:
        for place in combinations(study.axes):
            yield variant | place


def by_settings(findings: list[Finding]) -> list[tuple[Settings, list[Finding]]]:
    """What was found, the runs of several seeds together; without what failed."""
    groups: dict[str, tuple[Settings, list[Finding]]] = {}
    for finding in findings:
        if not finding.error:
            settings = {name: value for name, value in finding.point.names.items() if name != SEED}
            groups.setdefault(repr(settings), (settings, []))[1].append(finding)
    return list(groups.values())


def pooled(findings: list[Finding], name: str) -> float:
    """A figure of the runs of several seeds: its mean, by the requests that are judged."""
    weights = [finding.row["judged"] or 1 for finding in findings]
    total: float = sum(finding.row[name] * weight for finding, weight in zip(findings, weights, strict=True))
    return total / sum(weights)


def first_error(findings: list[Finding]) -> str:
    """Why there is no answer; "" if there may be one."""
    return next((finding.error for finding in findings if finding.error), "")


def row_of(settings: Settings, **figures: Any) -> Row:
    """An answer."""
    return dict(settings) | figures

"""What a study can ask. A question makes inquiries; each asks for points, some at a time, until it has its answer.

An inquiry is a generator: it yields points, is sent what came of them (in their order), and returns its answer, a row.
So what is asked next may follow from what was found, and many inquiries can be under way at once.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from serving.study.axes import Settings, combinations
from serving.study.points import SEED, VARIANT, Point, points_of
from serving.study.summary import Row
from serving.study.targets import Targets
from serving.workload.table import Table

if TYPE_CHECKING:
    from serving.study.spec import Study


class Finding(NamedTuple):
    """What came of a point: its figures, or why there are none."""

    point: Point
    row: Row
    error: str = ""


Inquiry = Generator[list[Point], list[Finding], Row | None]


class Question(Protocol):
    """What a study asks."""

    @classmethod
    def of(cls, table: Table, targets: Targets) -> Self:
        """As a study's file says it."""
        ...

    def check(self, study: "Study", table: Table) -> None:
        """Raises `StudyError` if a study cannot be asked this."""
        ...

    def inquiries(self, study: "Study") -> list[Inquiry]:
        """All of them; they do not depend on each other."""
        ...

    def expected(self, study: "Study") -> int:
        """About how many points it takes."""
        ...

    def answers(self, study: "Study", answers: list[Row], findings: list[Finding]) -> list[Row]:
        """The study's answers, of those of its inquiries and of all that was found."""
        ...


class EveryPoint:
    """What questions have in common that ask for each combination once, with each seed."""

    __slots__ = ()

    def check(self, study: "Study", table: Table) -> None:
        """Each study can be asked for all of it."""

    def inquiries(self, study: "Study") -> list[Inquiry]:
        """One for each point."""
        return [_ask(point) for settings in settings_of(study) for point in points_of(study, settings)]

    def expected(self, study: "Study") -> int:
        """All of them."""
        return len(self.inquiries(study))


def _ask(point: Point) -> Inquiry:
    yield [point]
    return None


def settings_of(study: "Study") -> Iterator[Settings]:
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

"""A study: what is run, what is varied, and the question that is asked of it."""

from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from serving.study.axes import Axes, Settings
from serving.study.point import Point
from serving.study.summary import Row
from serving.study.targets import Targets
from serving.types import NEVER
from serving.workload.table import Table


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


@dataclass(frozen=True, slots=True)
class Study:
    """A base `scenario` (its keys as a file has them) under a base `workload` (as its file at `workload_path` has it,
    in the table `workload_at`), in each of the `variants`, over all combinations of the `axes`, each with every one of
    the `seeds` (none: those of scenario and workload). Requests that arrive from `from_s` to `to_s` are judged by the
    `targets`. With `requests` each run has at most so many."""

    name: str
    title: str
    question: Question
    scenario: Settings
    workload: dict[str, Any]
    workload_path: Path
    workload_at: tuple[str, ...]
    targets: Targets
    axes: Axes = field(default_factory=dict)
    variants: dict[str, Settings] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    from_s: float = 0.0
    to_s: float = NEVER
    text: str = ""
    requests: int | None = None

    @property
    def has_targets(self) -> bool:
        """Tell whether anything is asked of any request: by the study, or by classes that requests name."""
        said = self.scenario.get("default_slo"), self.workload.get("slo"), self.workload.get("trace")
        return not self.targets.own or any(said)

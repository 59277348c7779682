"""A study: its scenario, what it varies, and its question."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

from serving.study.axes import WORKLOAD, Axes, Settings
from serving.study.measures.cost import Cost
from serving.study.measures.percentiles import Percentile
from serving.study.measures.targets import Targets
from serving.study.point import Point
from serving.study.summary import Row
from serving.toml_table import TomlTable
from serving.types import NEVER
from serving.workload.table import WorkloadTable
from serving.workload.traces.formats import reader

# Of requests, where all are to be in time.
SHARE = 0.99
# What says by which SLO class requests are judged.
CLASSES = ("default_slo", f"{WORKLOAD}.slo", f"{WORKLOAD}.trace")


class Finding(NamedTuple):
    """A point's result: its figures, or the error why there are none."""

    point: Point
    row: Row
    error: str = ""


Inquiry = Generator[list[Point], list[Finding], Row | None]


class Question(Protocol):
    """A study's question: the points to run, and the answers made of their findings."""

    @classmethod
    def of(cls, table: TomlTable, targets: Targets) -> Self:
        """Parse the question's table from a study's file. Raise `StudyError`."""
        ...

    @property
    def figures(self) -> tuple[str, ...]:
        """The figures of runs that the question is about."""
        ...

    def needs(self, targets: Targets) -> dict[str, float]:
        """Return the columns of shares that decide whether targets are kept, each with the least that it may be."""
        ...

    def check(self, study: "Study", table: TomlTable) -> None:
        """Raise `StudyError` if `study` cannot be asked this question."""
        ...

    def inquiries(self, study: "Study") -> list[Inquiry]:
        """Return all inquiries; they are independent of each other."""
        ...

    def expected(self, study: "Study") -> int:
        """Estimate the number of points that all inquiries take."""
        ...

    def answers(self, study: "Study", answers: list[Row], findings: list[Finding]) -> list[Row]:
        """Return the study's answers, a row each, from those of its inquiries and all findings."""
        ...


@dataclass(frozen=True, slots=True)
class Study:
    """A base `scenario` (its keys that were set, each of which is allowed by itself) under a base `workload`, in each
    of the `variants`, over all combinations of the `axes`, each with every one of the `seeds` (none: those of scenario
    and workload). Requests that arrive from `from_s` to `to_s` are judged by the `targets`. With `requests` each run
    has at most so many; `law` is that of the scenario if it was asked for in place of the file's. Runs have these
    `percentiles` beside the usual ones, and figures of the `cost` if there is one."""

    name: str
    title: str
    question: Question
    scenario: Settings
    workload: WorkloadTable
    targets: Targets
    axes: Axes = field(default_factory=dict)
    variants: dict[str, Settings] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    from_s: float = 0.0
    to_s: float = NEVER
    text: str = ""
    requests: int | None = None
    law: str | None = None
    percentiles: tuple[Percentile, ...] = ()
    cost: Cost | None = None

    @property
    def asked_figures(self) -> tuple[str, ...]:
        """The figures that answers have because this study asks for them, beside those that all have: percentiles that
        have a target, and what it costs."""
        costs = () if self.cost is None else ("cost_per_million_tokens", "cost_per_user_month")
        return (*(target.percentile.figure for target in self.targets.percentiles), *costs, *self.question.figures)

    @property
    def needs(self) -> dict[str, float]:
        """The columns of shares that decide whether the targets are kept, each with the least that it may be."""
        return self.question.needs(self.targets)

    @property
    def asked_share(self) -> float:
        """The share of requests that is to keep its targets, of several the highest but for all of them; 0 if nothing
        is asked."""
        return max((share for share in self.needs.values() if share < 1), default=SHARE) if self.has_targets else 0.0

    @property
    def has_targets(self) -> bool:
        """Tell whether anything is asked of any request: by the study, or by classes that requests name, of which an
        axis or a variant may be the first to tell."""
        said = self.scenario.get("default_slo"), self.workload.values.get("slo"), self._may_be_told_by_trace
        varied = {name for settings in (self.axes, *self.variants.values()) for name in settings}
        named = any(name in CLASSES or name.startswith(f"{WORKLOAD}.slo.") for name in varied)
        return not self.targets.own or any(said) or named

    @property
    def _may_be_told_by_trace(self) -> bool:
        """Tell whether requests come from a trace whose rows may name classes, as those of few formats do."""
        trace = self.workload.table("trace")
        return trace is not None and "file" in trace and reader(trace).may_name_classes

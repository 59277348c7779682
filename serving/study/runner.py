"""Study runner: runs inquiries side by side, each as soon as the points that it asked for are there."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from serving.process.output_folder import writing
from serving.study.point import Point
from serving.study.point_outcome import PointOutcome, outcome_of
from serving.study.report import write_report
from serving.study.results import Results
from serving.study.store import Store
from serving.study.study import Finding, Inquiry, Study
from serving.study.summary import Row
from serving.usage_error import UsageError

if TYPE_CHECKING:
    from serving.study.workers import Workers

TICK_S = 0.5
ENOUGH = 4  # Points, the first of which wait for workers that are only starting.
# What Ray takes to start, about: a study that is done by then needs no workers.
RAY_STARTS_S = 4.0
# Of a point with no more requests the first can be made here, to see how long one takes.
FEW_REQUESTS = 2_000


@dataclass(slots=True)
class StudyProgress:
    """A study's progress. `expected` is a guess where later points depend on earlier findings. Of those that are made,
    `outdated` were kept, but by other code."""

    expected: int
    done: int = 0
    kept: int = 0
    outdated: int = 0
    failed: int = 0
    began_s: float = field(default_factory=monotonic)

    @property
    def elapsed_s(self) -> float:
        """Real seconds since it began."""
        return monotonic() - self.began_s

    def __str__(self) -> str:
        left = "" if self.left_s is None else f", about {_clock(self.left_s)} left"
        counts = {"kept": self.kept, "of other code": self.outdated, "failed": self.failed}
        told = "".join(f", {count} {word}" for word, count in counts.items() if count)
        return f"{_clock(self.elapsed_s)}  {self.done} of about {max(self.expected, self.done)} points{told}{left}"

    @property
    def left_s(self) -> float | None:
        """Real seconds that the rest is likely to take; None before enough is known."""
        made = self.done - self.kept
        return self.elapsed_s / made * max(0, self.expected - self.done) if made >= ENOUGH else None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def run_study(
    study: Study,
    out: Path | str,
    cores: int | None = None,
    on_progress: Callable[[StudyProgress], None] = lambda progress: None,
    fresh: bool = False,
    until_interrupted: bool = False,
) -> Results:
    """Run a study on `cores` (all), keeping it in folder `out`: what was made there before, by the same code, is not
    made again, unless it is to be `fresh`. A point that fails is told of in the results, and costs the others nothing.

        results = run_study(load_study(Path("examples/studies/node-sizing.toml")), Path("results/node-sizing"))
        results.answers, results.points, results.requests     # data frames

    With `until_interrupted`, Ctrl-C ends it with what is done, and not with KeyboardInterrupt.

    Raise UsageError if the folder can't be made, and CommandFailed if what comes of it can't be written there.
    """
    store = Store(Path(out), study)
    if fresh:
        store.forget()
    progress = StudyProgress(study.question.expected(study))
    runner = StudyRunner(store, progress, lambda: on_progress(progress))
    complete = True
    try:
        runner.run(study.question.inquiries(study), cores)
    except KeyboardInterrupt:
        if not until_interrupted:
            raise
        complete = False
    found = study.question.answers(study, runner.answers, runner.findings)
    with writing(store.folder, f"The points are kept in {store.folder}: the same study goes on from there."):
        results = Results.write(study, store, found, runner.findings, complete)
        write_report(results)
    return results


class StudyRunner:
    """Runs a study: hands points to workers and their findings to the inquiries."""

    def __init__(self, store: Store, progress: StudyProgress, tell: Callable[[], None]) -> None:
        self._store, self._progress, self._tell = store, progress, tell
        self._to_make: deque[Point] = deque()
        # All points that each inquiry asked for, in order, with their keys; the last of them it waits for, until none
        # of them is missing.
        self._asked: list[list[tuple[str, Point]]] = []
        self._wants: list[list[tuple[str, Point]]] = []
        self._missing: list[set[str]] = []
        self._inquiries: list[Inquiry] = []
        self._answers: list[Row | None] = []
        self._open: set[int] = set()
        self._known: dict[str, Finding] = {}
        # Who waits for a point, by its key.
        self._waiting: dict[str, set[int]] = {}

    def run(self, inquiries: list[Inquiry], cores: int | None) -> None:
        """Run the inquiries."""
        self._inquiries, self._answers = inquiries, [None] * len(inquiries)
        self._open = set(range(len(inquiries)))
        self._asked, self._wants = [[] for _ in inquiries], [[] for _ in inquiries]
        self._missing = [set() for _ in inquiries]
        for index, inquiry in enumerate(inquiries):
            self._ask(index, next(inquiry))
            self._go_on(index)
        self._make_here()
        if self._to_make:
            # Imports Ray, which a small study does without.
            from serving.study.workers import Workers

            workers = Workers(cores)
            try:
                self._make_all(workers)
            finally:
                workers.close()

    @property
    def answers(self) -> list[Row]:
        """The answers of the inquiries that have one by now, in their order."""
        return [answer for answer in self._answers if answer is not None]

    @property
    def findings(self) -> list[Finding]:
        """All findings by now, in the order in which inquiries asked for them."""
        # The same run may have several names, and each of them is looked for.
        asked = {(key, str(point)): point for points in self._asked for key, point in points}
        return [self._known[key]._replace(point=point) for (key, _), point in asked.items() if key in self._known]

    def _make_here(self) -> None:
        """Make points in this process, as long as all that are left would be made before Ray has started."""
        began_s, made = monotonic(), 0
        while self._to_make and has_few(self._to_make[0]):
            spent_s, left = monotonic() - began_s, self._progress.expected - self._progress.done
            if made and spent_s / made * left > RAY_STARTS_S:
                return
            self._note(outcome_of(self._to_make.popleft()))
            made += 1
            self._told()

    def _make_all(self, workers: "Workers") -> None:
        while self._to_make or workers.busy:
            while self._to_make and workers.has_room:
                workers.give(self._to_make.popleft())
            if outcome := workers.take(TICK_S):
                self._note(outcome)
            self._told()

    def _told(self) -> None:
        # Whoever has no answer yet asks at least for what it waits for.
        self._progress.expected = max(self._progress.expected, self._progress.done + len(self._open))
        self._tell()

    def _ask(self, index: int, points: list[Point]) -> None:
        """Take the points that an inquiry wants."""
        asked = [(point.key, point) for point in points]
        self._wants[index] = asked
        self._asked[index] += asked
        self._missing[index] = {key for key, point in asked if not self._has(key, point, index)}

    def _has(self, key: str, point: Point, index: int) -> bool:
        """Tell whether a point is made; otherwise queue it and note which inquiry waits for it."""
        if key not in self._known and key not in self._waiting and (run := self._store.get(key)) is not None:
            self._progress.kept += 1
            self._find(key, Finding(point, point.row(run)))
        if key in self._known:
            return True
        if key not in self._waiting:
            self._waiting[key] = set()
            self._to_make.append(point)
            self._progress.outdated += self._store.is_of_other_code(point)
        self._waiting[key].add(index)
        return False

    def _note(self, outcome: PointOutcome) -> None:
        key = outcome.point.key
        if outcome.run is not None:
            self._store.put(key, outcome.run)
        self._progress.failed += outcome.run is None
        self._find(key, Finding(outcome.point, outcome.point.row(outcome.run) if outcome.run else {}, outcome.error))
        for index in sorted(self._waiting.pop(key)):
            self._missing[index].discard(key)
            self._go_on(index)

    def _find(self, key: str, finding: Finding) -> None:
        self._known[key] = finding
        self._progress.done += 1

    def _go_on(self, index: int) -> None:
        """Give an inquiry its points as long as all that it wants are there."""
        while not self._missing[index]:
            # Under the names by which this inquiry asked.
            found = [self._known[key]._replace(point=point) for key, point in self._wants[index]]
            try:
                asked = self._inquiries[index].send(found)
            except StopIteration as ending:
                self._answers[index] = ending.value
                self._open.discard(index)
                return
            self._ask(index, asked)


def has_few(point: Point) -> bool:
    """Tell whether a point has few enough requests to be made at once, as far as that is known before it is made."""
    try:
        workload = point.workload_made()
    except UsageError:
        # It is told as soon as it is tried.
        return True
    return workload.requests is not None and workload.requests <= FEW_REQUESTS

"""Capacity: for each combination, the highest load at which so many requests are still served as promised.

The load is doubled (or halved) until it is known within a factor of two, and then halved in between, by factors, down
to the `tolerance`. Attainment is taken to fall with load: if it falls, rises and falls again, one fall is found.
"""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple, Self

from serving.study.axes import LOAD, Settings
from serving.study.points import Point, points_of
from serving.study.questions import Finding, Inquiry, first_error, pooled, row_of, settings_of
from serving.study.summary import Row
from serving.study.targets import Targets
from serving.workload.arrivals import Closed
from serving.workload.table import POSITIVE, Allowed, Table

if TYPE_CHECKING:
    from serving.study.spec import Study

SHARE = Allowed("a share above 0 and at most 1", lambda value: 0 < value <= 1)
TOLERANCE = Allowed("a number from 0.001 to 1", lambda value: 0.001 <= value <= 1)
FIGURES = (
    *("offered_per_s", "attainment", "ttft_p99_s", "tpot_p99_s", "goodput_per_s", "tokens_per_s", "j_per_token"),
    *("power_w", "batch_mean", "sd_share", "busy_share"),
)
USUAL = 9  # points that it takes to find a load to 2 %, from one that is wrong by a factor of four
# A workload that ends after so many requests arrives no faster at twice the load once all of it comes at once.
SAME = 1.05
SHORT = "workload too short"


class Tried(NamedTuple):
    """A load (of a closed loop: so many users), and what came of it with each seed."""

    load: float
    findings: list[Finding]
    users: int | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """`attainment` of the requests are to be served as promised; loads from `least` to `most` times that of the
    workload are tried, beginning with the workload's own."""

    attainment: float
    tolerance: float
    least: float
    most: float

    @classmethod
    def of(cls, table: Table, targets: Targets) -> Self:
        """See `Question`."""
        below = table.table("capacity") or table.below("capacity", {})
        found = cls(
            below.number("attainment", SHARE, targets.share),
            below.number("tolerance", TOLERANCE, 0.02),
            below.number("least", POSITIVE, 1 / 1024),
            below.number("most", POSITIVE, 1024.0),
        )
        if found.least >= found.most:
            raise below.wrong("most", found.most, f"above `least`, which is {found.least:g}")
        below.end()
        return found

    def check(self, study: "Study", table: Table) -> None:
        """See `Question`."""
        if LOAD in study.axes or any(LOAD in settings for settings in study.variants.values()):
            raise table.error("question", "is 'capacity', which looks for the load itself: it can be no axis.")

    def inquiries(self, study: "Study") -> list[Inquiry]:
        """One for each combination."""
        return [self._climb(study, settings) for settings in settings_of(study)]

    def expected(self, study: "Study") -> int:
        """A guess."""
        return USUAL * len(list(settings_of(study))) * max(1, len(study.seeds))

    def answers(self, study: "Study", answers: list[Row], findings: list[Finding]) -> list[Row]:
        """Those of the inquiries."""
        return answers

    def _climb(self, study: "Study", settings: Settings) -> Inquiry:
        below: Tried | None = None
        above: Tried | None = None
        load: float | None = min(max(1.0, self.least), self.most)
        while load is not None:
            points = points_of(study, settings | {LOAD: load})
            users = users_of(points[0])
            if users is not None and users in (below and below.users, above and above.users):
                break
            findings = yield points
            if error := first_error(findings):
                return row_of(settings, error=error)
            if pooled(findings, "attainment") < self.attainment:
                above = Tried(load, findings, users)
            elif below is not None and above is None and _offered(findings) < SAME * _offered(below.findings):
                return self._answer(settings, Tried(load, findings, users), None, SHORT)
            else:
                below = Tried(load, findings, users)
            load = self._next(below and below.load, above and above.load)
        return self._answer(settings, below, above)

    def _next(self, below: float | None, above: float | None) -> float | None:
        """The load to try, between one that holds and one that does not; None if that is known well enough."""
        if above is None:
            assert below is not None
            return None if below >= self.most else min(below * 2, self.most)
        if below is None:
            return None if above <= self.least else max(above / 2, self.least)
        return None if above / below <= 1 + self.tolerance else sqrt(below * above)

    def _answer(self, settings: Settings, below: "Tried | None", above: "Tried | None", why: str = "") -> Row:
        limit = _limit(above.findings) if above else why or f"none up to {self.most:g}"
        if below is None:
            return row_of(settings, load=0.0, limit=f"{limit} even at {self.least:g}")
        figures = {name: pooled(below.findings, name) for name in FIGURES}
        users = {} if below.users is None else {"users": below.users}
        return row_of(settings, load=below.load, **users, **figures, limit=limit)


def users_of(point: Point) -> int | None:
    """How many users a closed loop has at a point's load; None of an open one."""
    arrivals = point.workload_made().arrivals
    return arrivals.users if isinstance(arrivals, Closed) else None


def _offered(findings: list[Finding]) -> float:
    return pooled(findings, "offered_per_s")


def _limit(findings: list[Finding]) -> str:
    """Which of the targets a load that does not hold misses more often."""
    ttft, tpot = pooled(findings, "ttft_attainment"), pooled(findings, "tpot_attainment")
    return "TTFT" if ttft < tpot else "TPOT" if tpot < ttft else "TTFT and TPOT"

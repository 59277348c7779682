"""Capacity: for each combination, the highest load at which the wanted share of requests still meets its targets.

The load is doubled (or halved) until it is bracketed within a factor of two, and then bisected geometrically down to
the `tolerance`. Attainment need not fall all the way: a device that goes over to speculation may serve more users
better. So a load that misses the target by little is doubled again, up to twice; if a higher one holds, that counts,
and the answer says that a lower one does not.
"""

from dataclasses import dataclass
from itertools import takewhile
from math import sqrt
from typing import NamedTuple, Self

from serving.study.axes import LOAD, WORKLOAD, Settings
from serving.study.measures.targets import ATTAINMENT, SHARE, Targets
from serving.study.point import shown
from serving.study.point_factory import points_of
from serving.study.questions import asked_of, closeness, first_error, pooled, row_of, settings_of
from serving.study.study import Finding, Inquiry, Study
from serving.study.summary import Row
from serving.toml_table import POSITIVE, AllowedNumber, TomlTable

TOLERANCE = AllowedNumber("a number from 0.001 to 1", lambda value: 0.001 <= value <= 1)
FIGURES = (
    *(
        "offered_per_s",
        "served_per_s",
        "attainment",
        "ttft_p99_s",
        "tpot_p99_s",
        "goodput_per_s",
        "tokens_per_s",
        "j_per_token",
    ),
    *("power_w", "batch_mean", "sd_share", "busy_share"),
)
USUAL = 10  # points that it takes to find a load to 2 %, from one that is wrong by a factor of four
# A workload that ends after so many requests arrives no faster at twice the load once all of it comes at once; or it
# does, in an open loop for ever, and is served no faster, as what is late is over before it is too late.
SAME = 1.05
SHORT = "workload too short"
BEYOND = "none up to"
SLO = "slo"
# What says by which SLO class requests are judged.
CLASSES = ("default_slo", f"{WORKLOAD}.{SLO}", f"{WORKLOAD}.trace")
# How many doublings a dip may last, and what of the attainment is left in one at least.
DIP, NOT_FAR = 2, 0.6


class LoadTrial(NamedTuple):
    """A load that was tried (of a closed loop: a number of users), how close it comes to the targets, and its findings,
    one a seed."""

    load: float
    closeness: float
    findings: list[Finding]
    users: int | None

    @property
    def holds(self) -> bool:
        """Tell whether the targets are kept."""
        return self.closeness >= 1


@dataclass(frozen=True, slots=True)
class Capacity:
    """Find the highest load at which the share `attainment` of requests meets its targets, from `least` to `most` times
    the workload's own, which is tried first."""

    attainment: float
    tolerance: float
    least: float
    most: float

    @classmethod
    def of(cls, table: TomlTable, targets: Targets) -> Self:
        """Parse the question's table. Raise `StudyError`."""
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

    @property
    def figures(self) -> tuple[str, ...]:
        """Return no figure in particular: the targets say what is asked."""
        return ()

    def needs(self, targets: Targets) -> dict[str, float]:
        """Return the columns of shares that decide whether a load holds, each with the least that it may be."""
        return targets.needs | ({ATTAINMENT: self.attainment} if self.attainment else {})

    def check(self, study: Study, table: TomlTable) -> None:
        """Raise `StudyError` if the study cannot be asked for its capacity."""
        if LOAD in study.axes or any(LOAD in settings for settings in study.variants.values()):
            raise table.error("question", "is 'capacity', which looks for the load itself: it can be no axis.")
        if not (study.has_targets or _varies_targets(study)):
            raise table.error(
                "question",
                "is 'capacity', the highest load at which requests keep their targets, and none has any: say them by "
                "`slo`, as { ttft_ms = 1000, tpot_ms = 50 }, or let requests name SLO classes (`default_slo` of the "
                "scenario, `slo` of the workload).",
            )

    def inquiries(self, study: Study) -> list[Inquiry]:
        """Return one inquiry for each combination."""
        return [self._climb(study, settings) for settings in settings_of(study)]

    def expected(self, study: Study) -> int:
        """Estimate the number of points."""
        return USUAL * len(list(settings_of(study))) * max(1, len(study.seeds))

    def answers(self, study: Study, answers: list[Row], findings: list[Finding]) -> list[Row]:
        """Return the inquiries' answers."""
        return answers

    def _climb(self, study: Study, settings: Settings) -> Inquiry:
        """Raise the load while it holds, and past a fall that may be a dip; otherwise lower it; then bisect."""
        tried: list[LoadTrial] = []
        needs = self.needs(study.targets)
        load: float | None = min(max(1.0, self.least), self.most)
        while load is not None:
            points = points_of(study, settings | {LOAD: load})
            users = points[0].users
            if users is not None and any(each.users == users for each in tried):
                break
            findings = yield points
            if error := first_error(findings):
                return row_of(settings, error=error)
            before = max(tried, default=None)
            tried.append(LoadTrial(load, closeness(findings, needs), findings, users))
            if before is not None and tried[-1].holds and _is_as_much(before, tried[-1]):
                # More load brings nothing: the least of which that is so says the most.
                return self._answer(study, settings, tried[:-1], SHORT)
            load = self._next(tried)
        return self._answer(study, settings, tried)

    def _next(self, tried: list["LoadTrial"]) -> float | None:
        """Return the load to try next; None once the highest load that holds is known to the tolerance."""
        below, above = _edge(tried)
        highest = max(tried)
        if highest.holds or self._may_be_a_dip(tried):
            return None if highest.load >= self.most else min(highest.load * 2, self.most)
        assert above is not None
        if below is None:
            return None if above.load <= self.least else max(above.load / 2, self.least)
        return None if above.load / below.load <= 1 + self.tolerance else sqrt(below.load * above.load)

    def _may_be_a_dip(self, tried: list["LoadTrial"]) -> bool:
        """Tell whether the highest load failed by little, and not twice in a row: a device that changes its mode may
        serve more load better."""
        failed = list(takewhile(lambda each: not each.holds, sorted(tried, reverse=True)))
        return len(failed) <= DIP and failed[0].closeness >= NOT_FAR

    def _answer(self, study: Study, settings: Settings, tried: list["LoadTrial"], why: str = "") -> Row:
        below, above = _edge(tried)
        limit = self._limit(study.targets, above.findings) if above else why or f"{BEYOND} {self.most:g}"
        if below is None:
            return row_of(settings, load=0.0, limit=f"{limit} even at {self.least:.3g}")
        figures = {name: pooled(below.findings, name) for name in FIGURES} | asked_of(study, below.findings)
        users = {} if below.users is None else {"users": below.users}
        dips = sorted(each.load for each in tried if each.load < below.load and not each.holds)
        lower = f", and misses it at {shown(dips[0])} too" if dips else ""
        return row_of(settings, load=below.load, **users, **figures, limit=limit + lower)

    def _limit(self, targets: Targets, findings: list[Finding]) -> str:
        """Name the target that a load's requests miss most."""
        percentiles = {target.attainment: target.percentile.title for target in targets.percentiles}
        worst = min(self.needs(targets).items(), key=lambda need: closeness(findings, dict([need])))[0]
        if worst in percentiles:
            return percentiles[worst]
        ttft, tpot = pooled(findings, "ttft_attainment"), pooled(findings, "tpot_attainment")
        return "TTFT" if ttft < tpot else "TPOT" if tpot < ttft else "TTFT and TPOT"


def _edge(tried: list["LoadTrial"]) -> tuple["LoadTrial | None", "LoadTrial | None"]:
    """Return the highest load that holds, and the lowest failed one above it."""
    below = max((each for each in tried if each.holds), default=None)
    above = min((each for each in tried if below is None or each.load > below.load), default=None)
    return below, above


def _varies_targets(study: Study) -> bool:
    """Tell whether an axis or a variant sets the classes by which requests are judged that the study itself does
    not."""
    varied = {name for settings in (study.axes, *study.variants.values()) for name in settings}
    return any(name in CLASSES or name.startswith(f"{WORKLOAD}.{SLO}.") for name in varied)


def _is_as_much(before: "LoadTrial", now: "LoadTrial") -> bool:
    """Tell whether doubling the load brought no more requests per second, or had no more of them served."""
    more = before.holds and now.load > before.load
    return more and any(_rate(now, name) < SAME * _rate(before, name) for name in ("offered_per_s", "served_per_s"))


def _rate(trial: "LoadTrial", name: str) -> float:
    return pooled(trial.findings, name)

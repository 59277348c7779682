"""Capacity: for each combination, the highest load at which the wanted share of requests still meets its targets.

The load is doubled (or halved) until it is bracketed within a factor of two, and then bisected geometrically down to
the `tolerance`. Attainment need not fall all the way: a device that goes over to speculation may serve more users
better. So a load that misses the target by little is doubled again, up to twice; if a higher one holds, that counts,
and the answer says that a lower one does not.

Several seeds are judged together, at the same loads; then the search goes on for each alone, from what is known of it,
so that the answer has the range of capacities that the seeds have by themselves.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from itertools import takewhile
from math import sqrt
from typing import Self

from serving.study.axes import LOAD, Settings
from serving.study.measures.targets import ATTAINMENT, SHARE, Targets
from serving.study.point import SEED, Point, shown
from serving.study.point_factory import point_of
from serving.study.questions import asked_of, closeness, first_error, pooled, row_of, settings_of
from serving.study.questions.climb import SHORT, UNJUDGED, Climb, LoadTrial, long_enough
from serving.study.study import Finding, Inquiry, Study
from serving.study.summary import LEAST, MOST, SEEDS, Row
from serving.toml_table import FACTOR, AllowedNumber, TomlTable

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
ALONE = 3  # and then one seed's own, from what was tried with all
REFUSED = "requests turned away"
BEYOND = "none up to"
USERS, OFFERED = "users", "offered_per_s"
# How many doublings a dip may last, and what of the attainment is left in one at least.
DIP, NOT_FAR = 2, 0.6


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
            below.number("least", FACTOR, 1 / 1024),
            below.number("most", FACTOR, 1024.0),
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
        if not study.has_targets:
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
        seeds = max(1, len(study.seeds))
        return (USUAL + (ALONE if seeds > 1 else 0)) * len(list(settings_of(study))) * seeds

    def answers(self, study: Study, answers: list[Row], findings: list[Finding]) -> list[Row]:
        """Return the inquiries' answers, each with how many seeds it is of, and the range that these have alone."""
        return [_with_range(study, row, findings) for row in answers]

    def _climb(self, study: Study, settings: Settings) -> Inquiry:
        """Find the highest load that holds with all seeds together, and then with each of them."""
        together = Climb(study.seeds or (None,), self.needs(study.targets))
        yield from self._climb_all(study, settings, [together])
        if together.error:
            return row_of(settings, error=together.error)
        row = self._answer(study, settings, together)
        if len(together.seeds) > 1 and row[LOAD] and not together.short:
            alone = together.alone()
            yield from self._climb_all(study, settings, alone)
            if error := next((each.error for each in alone if each.error), ""):
                return row_of(settings, error=error)
        return row

    def _climb_all(
        self, study: Study, settings: Settings, climbs: list[Climb]
    ) -> Generator[list[Point], list[Finding], None]:
        """Go on with all climbs side by side, until each of them has ended."""
        while asked := [(each, points) for each in climbs if (points := self._wanted(study, settings, each))]:
            findings = yield [point for _, points in asked for point in points]
            for climb, points in asked:
                mine, findings = findings[: len(points)], findings[len(points) :]
                climb.learn(points[0].load, mine)

    def _wanted(self, study: Study, settings: Settings, climb: Climb) -> list[Point]:
        """Return what is to be tried next, a point a seed: more load while it holds, and past a fall that may be a dip,
        otherwise less, and then between both. Nothing once the highest load that holds is known, or can't be."""
        if climb.ended:
            return []
        load = self._next(climb) if climb.tried else min(max(1.0, self.least), self.most)
        if load is None:
            return []
        points = [point_of(study, settings | {LOAD: load}, seed) for seed in climb.seeds]
        users = points[0].users
        if users is None or all(each.users != users for each in climb.tried):
            return points
        between, one = climb.users_between(), replace(points[0], load=1.0).users
        if between is None or one is None:
            return []
        return [point_of(study, settings | {LOAD: between / one}, seed) for seed in climb.seeds]

    def _next(self, climb: Climb) -> float | None:
        """Return the load to try next; None once the highest load that holds is known to the tolerance."""
        below, above = climb.edge()
        highest = max(climb.tried)
        if highest.load < self.most and (highest.holds or self._may_be_a_dip(climb.tried)):
            return min(highest.load * 2, self.most)
        if above is None:
            return None
        if below is None:
            return None if above.load <= self.least else max(above.load / 2, self.least)
        return None if above.load / below.load <= 1 + self.tolerance else sqrt(below.load * above.load)

    def _may_be_a_dip(self, tried: list[LoadTrial]) -> bool:
        """Tell whether the highest load failed by little, and not twice in a row: a device that changes its mode may
        serve more load better."""
        failed = list(takewhile(lambda each: not each.holds, sorted(tried, reverse=True)))
        return len(failed) <= DIP and failed[0].closeness >= NOT_FAR

    def _answer(self, study: Study, settings: Settings, climb: Climb) -> Row:
        # Where more load brings nothing, the least of which that is so says the most.
        why = climb.short or f"{BEYOND} {self.most:g}"
        below, above = climb.edge()
        if above is not None:
            # A run without a judged request has no figures.
            why = UNJUDGED if first_error(above.findings) else self._limit(study.targets, above.findings)
        if below is None:
            return row_of(settings, load=0.0, limit=f"{why} even {_at(min(climb.tried))}")
        figures = {name: pooled(below.findings, name) for name in FIGURES} | asked_of(study, below.findings)
        users = {} if below.users is None else {USERS: below.users}
        dips = sorted(each.load for each in climb.tried if each.load < below.load and not each.holds)
        lower = f", and misses it at {shown(dips[0])} too" if dips else ""
        return row_of(settings, load=below.load, **users, **figures, limit=why + lower)

    def _limit(self, targets: Targets, findings: list[Finding]) -> str:
        """Name the target that a load's requests miss most, or what keeps most of them from any."""
        percentiles = {target.attainment: target.percentile.title for target in targets.percentiles}
        worst = min(self.needs(targets).items(), key=lambda need: closeness(findings, dict([need])))[0]
        if worst in percentiles:
            return percentiles[worst]
        refused = pooled(findings, "refused_share")
        late = {name: 1.0 - refused - pooled(findings, f"{name.lower()}_attainment") for name in ("TTFT", "TPOT")}
        if refused > max(late.values()):
            return REFUSED
        ttft, tpot = late.values()
        return "TTFT" if ttft > tpot else "TPOT" if tpot > ttft else "TTFT and TPOT"


def _at(trial: LoadTrial) -> str:
    """Say which load was tried."""
    if trial.users is None:
        return f"at {trial.load:.3g}"
    return f"with {trial.users} user{'s' if trial.users > 1 else ''}"


def held_by_seed(study: Study, row: Row, findings: list[Finding]) -> dict[int | None, float]:
    """Return what each seed holds alone, of the combination that an answer is of: users, or in an open loop requests a
    second; 0 if no load that was tried."""
    tried: dict[int | None, list[LoadTrial]] = {seed: [] for seed in study.seeds or (None,)}
    for finding in findings:
        point = finding.point
        is_of = all(row.get(name) == value for name, value in point.names.items() if name not in (LOAD, SEED))
        if is_of and not finding.error:
            tried[point.seed].append(LoadTrial.of(point.load, [finding], study.needs))
    held = {seed: [each for each in long_enough(trials) if each.holds] for seed, trials in tried.items()}
    return {seed: _held(trials[-1]) if trials else 0 for seed, trials in held.items()}


def _held(trial: LoadTrial) -> float:
    (finding,) = trial.findings
    return float(finding.row[OFFERED]) if trial.users is None else trial.users


def is_short(row: Row) -> bool:
    """Tell whether a capacity's workload is too short to tell it."""
    return str(row.get("limit", "")).startswith(SHORT)


def leaves_nobody(row: Row) -> bool:
    """Tell whether a capacity's workload has no request to judge at more load."""
    return str(row.get("limit", "")).startswith(UNJUDGED)


def is_beyond(row: Row) -> bool:
    """Tell whether a capacity is every load that was tried, and may be more."""
    return str(row.get("limit", "")).startswith(BEYOND)


def held_figure(row: Row) -> str:
    """Return the figure that says what an answer holds."""
    return USERS if USERS in row else OFFERED


def _with_range(study: Study, row: Row, findings: list[Finding]) -> Row:
    """Return an answer with how many seeds it is of and, of several, the least and the most that one of them holds."""
    if row.get("error") or not row[LOAD]:
        return row
    held = held_by_seed(study, row, findings)
    if len(held) == 1 or is_short(row):
        return row | {SEEDS: len(held)}
    figure = held_figure(row)
    ends = {f"{figure}{LEAST}": min(held.values()), f"{figure}{MOST}": max(held.values())}
    place = list(row).index(figure) + 1
    return dict([*list(row.items())[:place], *ends.items(), *list(row.items())[place:], (SEEDS, len(held))])

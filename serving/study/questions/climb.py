"""Climb: the way to the highest load that holds: the loads that were tried, and what they tell."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from serving.study.point import is_of_nobody
from serving.study.questions import closeness, first_error, pooled
from serving.study.study import Finding

# A workload that ends after so many requests arrives no faster at twice the load once all of it comes at once; or it
# does, in an open loop for ever, and is served no faster, as what is late is over before it is too late. Users of a
# closed loop wait for their answers, so that a busy node serves more of them no faster however long it is: there it is
# too short only if users have not asked so often each.
SAME, OFTEN = 1.05, 2
SHORT = "workload too short"
UNJUDGED = f"{SHORT}: nobody left to judge"


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

    @classmethod
    def of(cls, load: float, findings: list[Finding], needs: Mapping[str, float]) -> "LoadTrial":
        """Return a load's trial, judged by what is needed of which shares."""
        return cls(load, closeness(findings, needs), findings, findings[0].point.users)


@dataclass(slots=True)
class Climb:
    """The way to the highest load that holds with some seeds together: the loads that were tried, and why it ended
    before that was known, if it did: why the workload is too `short` for more, or which run has failed."""

    seeds: tuple[int | None, ...]
    needs: Mapping[str, float]
    tried: list[LoadTrial] = field(default_factory=list)
    short: str = ""
    ended: bool = False
    error: str = ""

    def alone(self) -> list["Climb"]:
        """Return what is known of each seed by itself: it may be too short for loads that with others it is not."""
        known = [each for each in self.tried if not first_error(each.findings)]
        found = []
        for place, seed in enumerate(self.seeds):
            tried = [LoadTrial.of(each.load, each.findings[place : place + 1], self.needs) for each in known]
            told = long_enough(tried)
            short = SHORT if len(told) < len(tried) else ""
            found.append(Climb((seed,), self.needs, told, short, bool(short)))
        return found

    def learn(self, load: float, findings: list[Finding]) -> None:
        """Take in what came of a load, a finding a seed. One that the workload is too short for is none that holds: it
        has no request to judge, or brings or serves no more of them than half of it."""
        if error := first_error(findings):
            self._end(load, findings, error)
            return
        trial, before = LoadTrial.of(load, findings, self.needs), max(self.tried, default=None)
        if before is not None and trial.holds and _is_as_much(before, trial):
            self.short, self.ended = SHORT, True
        else:
            self.tried.append(trial)

    def _end(self, load: float, findings: list[Finding], error: str) -> None:
        """End with an error, or with what was tried before if of this load nobody is judged. Where more load than holds
        is known to fail, what lies between is still to be found."""
        below, above = self.edge()
        if is_of_nobody(error) and below is not None and above is not None:
            self.tried.append(LoadTrial(load, 0.0, findings, findings[0].point.users))
            return
        self.ended = True
        if not (is_of_nobody(error) and self.tried):
            self.error = error
        elif below is not None:
            self.short = UNJUDGED

    def edge(self) -> tuple[LoadTrial | None, LoadTrial | None]:
        """Return the highest load that holds, and the lowest failed one above it."""
        below = max((each for each in self.tried if each.holds), default=None)
        above = min((each for each in self.tried if below is None or each.load > below.load), default=None)
        return below, above

    def users_between(self) -> int | None:
        """Return the number of users in the middle between the most that hold and the next that don't; None if there is
        none between."""
        below, above = self.edge()
        if below is None or above is None or below.users is None or above.users is None:
            return None
        return (below.users + above.users) // 2 if above.users - below.users > 1 else None


def long_enough(tried: Iterable[LoadTrial]) -> list[LoadTrial]:
    """Return the trials that the workload is long enough for, from the lowest load: those below the first that holds
    and brings or serves no more requests than half of it."""
    found: list[LoadTrial] = []
    for trial in sorted(tried, key=lambda each: each.load):
        if trial.holds and any(_is_as_much(each, trial) for each in found):
            break
        found.append(trial)
    return found


def _is_as_much(before: LoadTrial, now: LoadTrial) -> bool:
    """Tell whether doubling the load brought no more requests per second, or had no more of them served, for want of
    requests."""
    doubled = before.holds and now.load >= 2 * before.load  # a last step to the most that is allowed may be small
    scarce = now.users is None or _rate(now, "requests") < OFTEN * now.users
    return (
        doubled
        and scarce
        and any(_rate(now, name) < SAME * _rate(before, name) for name in ("offered_per_s", "served_per_s"))
    )


def _rate(trial: LoadTrial, name: str) -> float:
    return pooled(trial.findings, name)

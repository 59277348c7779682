"""Search: the best place on the axes under constraints, without trying all, by Optuna's TPE sampler.

The sampler proposes a fixed number of places at a time, so results do not depend on the number of cores. If the axes
have no more places than `trials`, all of them are tried.
"""

import re
from dataclasses import dataclass
from math import inf, isfinite, prod
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from serving.nearest_name import meant
from serving.study.axes import Axes, Settings, combinations
from serving.study.measures.cost import COLUMNS as COSTS
from serving.study.measures.percentiles import percentile_of, percentiles_like
from serving.study.measures.targets import Targets
from serving.study.point import VARIANT
from serving.study.point_factory import points_of
from serving.study.questions import asked_of, first_error, pooled, row_of, settings_of
from serving.study.study import Finding, Inquiry
from serving.study.summary import COLUMNS, Row
from serving.toml_table import COUNT, WHOLE, TomlTable
from serving.usage_error import UsageError

if TYPE_CHECKING:
    import optuna

    from serving.study.study import Study

AT_ONCE = 4
PATIENCE = 20  # times that the sampler may name a place that it knows
FIGURES = (
    *("attainment", "goodput_per_s", "ttft_p99_s", "tpot_p99_s", "tokens_per_s", "j_per_token", "power_w", "hit_rate"),
    *("sd_share", "refused"),
)
CONSTRAINT = re.compile(r"\s*(\w+)\s*(<=|>=)\s*([-+.\deE]+)\s*")


class Constraint(NamedTuple):
    """A bound on a figure: at most `bound` (`sign` 1) or at least (-1)."""

    name: str
    sign: int
    bound: float

    def broken_by(self, figures: Row) -> float:
        """Return the violation relative to the bound; 0 or less if the constraint is kept."""
        value: float = figures[self.name]
        return self.sign * (value - self.bound) / (abs(self.bound) or 1.0)


@dataclass(frozen=True, slots=True)
class Search:
    """Maximise (`sign` -1) or minimise (1) a `figure` among places that keep the `constraints`."""

    figure: str
    sign: int
    constraints: tuple[Constraint, ...]
    trials: int
    seed: int

    @classmethod
    def of(cls, table: TomlTable, targets: Targets) -> Self:
        """Parse the question's table. Raise `StudyError`."""
        below = table.table("search")
        if below is None:
            raise table.wrong("search", None, "a table with `maximise` or `minimise`")
        both = "maximise" in below, "minimise" in below
        if all(both) or not any(both):
            raise below.error("maximise", "or `minimise` names the figure: exactly one of them is needed.")
        verb = "maximise" if both[0] else "minimise"
        found = cls(
            figure=_figure(below, verb),
            sign=-1 if both[0] else 1,
            constraints=_constraints(below),
            trials=below.whole("trials", COUNT, 40),
            seed=below.whole("seed", WHOLE, 0),
        )
        below.end()
        return found

    @property
    def figures(self) -> tuple[str, ...]:
        """Return the figure that is looked for, and those that are bounded."""
        return (self.figure, *(each.name for each in self.constraints))

    def needs(self, targets: Targets) -> dict[str, float]:
        """Return the columns of shares that decide whether targets are kept: those of the targets."""
        return targets.needs

    def check(self, study: "Study", table: TomlTable) -> None:
        """Raise `StudyError` if the study cannot be searched."""
        if not study.axes and len(study.variants) < 2:
            raise table.error("axes", "is empty: there is nothing to search.")
        if study.cost is None and (costs := [name for name in self.figures if name in COSTS]):
            raise table.error("search", f"is about `{costs[0]}`, and there is no table `cost` with prices.")

    def inquiries(self, study: "Study") -> list[Inquiry]:
        """Return the only inquiry."""
        return [self._everywhere(study) if self._few(study) else self._look(study)]

    def expected(self, study: "Study") -> int:
        """Return the greatest number of points that the search may run."""
        places = len(list(settings_of(study))) if self._few(study) else self.trials
        return places * max(1, len(study.seeds))

    def answers(self, study: "Study", answers: list[Row], findings: list[Finding]) -> list[Row]:
        """Return the best place that keeps the constraints; if none does, the one that breaks them least, and say
        so."""
        return answers

    def keeps(self, group: list[Finding]) -> bool:
        """Tell whether a place, with all its seeds, keeps the constraints and has the figure."""
        return self.rank(group)[0] == 0

    def rank(self, group: list[Finding]) -> tuple[float, float]:
        """Return by what places are sorted, the best first: how far they break the constraints in all, then the figure.
        One that serves nobody comes last: it has no latency, and what its tokens cost nobody knows."""
        if not (_serves(group) and _has(group, self.figure)):
            return inf, inf
        return sum(max(0.0, amount) for amount in self._broken(group)), self.sign * pooled(group, self.figure)

    def _few(self, study: "Study") -> bool:
        return prod(map(len, _space(study).values())) <= self.trials

    def _everywhere(self, study: "Study") -> Inquiry:
        places = list(settings_of(study))
        findings = yield [point for place in places for point in points_of(study, place)]
        return self._best(study, places, findings)

    def _look(self, study: "Study") -> Inquiry:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        optimiser = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self.seed, constant_liar=True))
        space, places, all_findings = _space(study), list[Settings](), list[Finding]()
        while len(places) < self.trials:
            trials = []
            for _ in range(min(AT_ONCE, self.trials - len(places))):
                trial, place = _fresh(optimiser, space, places)
                trials.append(trial)
                places = [*places, place]
            asked = places[len(places) - len(trials) :]
            findings = yield [point for place in asked for point in points_of(study, place)]
            for trial, group in zip(trials, _groups(findings, len(trials)), strict=True):
                self._tell(optimiser, trial, group)
            all_findings = all_findings + findings
        return self._best(study, places, all_findings)

    def _tell(self, optimiser: "optuna.Study", trial: "optuna.Trial", group: list[Finding]) -> None:
        import optuna

        if first_error(group):
            optimiser.tell(trial, state=optuna.trial.TrialState.FAIL)
            return
        for constraint, broken in zip(self.constraints, self._broken(group), strict=True):
            trial.set_constraint(f"{constraint.name} {constraint.sign}", broken)
        if isfinite(found := self.rank(group)[1]):
            optimiser.tell(trial, found)
        else:
            optimiser.tell(trial, state=optuna.trial.TrialState.FAIL)

    def _broken(self, group: list[Finding]) -> list[float]:
        return [
            each.broken_by({each.name: pooled(group, each.name)}) if _has(group, each.name) else inf
            for each in self.constraints
        ]

    def _best(self, study: "Study", places: list[Settings], findings: list[Finding]) -> Row:
        of_places = zip(places, _groups(findings, len(places)), strict=True)
        done = [(place, group) for place, group in of_places if not first_error(group)]
        if not done:
            return row_of({}, error=first_error(findings))

        place, group = min(done, key=lambda each: self.rank(each[1]))
        names = dict.fromkeys((self.figure, *(each.name for each in self.constraints), *FIGURES))
        found = {name: pooled(group, name) for name in names if _has(group, name)} | asked_of(study, group)
        if not isfinite(self.rank(group)[1]):
            # It serves nobody: what was looked for is unknown there, and not 0.
            found.pop(self.figure, None)
        return row_of(place, kept=self.keeps(group), tried=len(places), **found)


def _serves(group: list[Finding]) -> bool:
    """Tell whether each run of a place serves somebody who is judged."""
    return all(finding.row["refused_share"] < 1 for finding in group)


def _has(group: list[Finding], name: str) -> bool:
    return all(name in finding.row for finding in group)


def _constraints(table: TomlTable) -> tuple[Constraint, ...]:
    texts = table.get("where", [])
    if not isinstance(texts, list):
        raise _wrong_bounds(table, texts)
    found = []
    for text in texts:
        match = CONSTRAINT.fullmatch(text) if isinstance(text, str) else None
        if match is None or not _is_number(match[3]):
            raise _wrong_bounds(table, texts)
        if not _is_known(match[1]):
            raise _wrong_bounds(table, texts, _near(match[1]))
        found.append(Constraint(match[1], 1 if match[2] == "<=" else -1, float(match[3])))
    return tuple(found)


def _wrong_bounds(table: TomlTable, value: Any, near: str = "") -> UsageError:
    allowed = 'a list of bounds such as "tpot_p99_s <= 0.05"; figures are the columns of points'
    return table.wrong("where", value, f"{allowed}{near}")


def _figure(table: TomlTable, key: str) -> str:
    name = table.get(key)
    if not isinstance(name, str) or not _is_known(name):
        allowed = f"{' or '.join((*COLUMNS, *COSTS))}, or another percentile, such as ttft_p75_s"
        raise table.wrong(key, name, f"{allowed}{_near(name)}")
    return name


def _near(name: object) -> str:
    """Return the nearest figure to one that there is not, as a hint."""
    like = percentiles_like(name) if isinstance(name, str) else []
    return meant(name, (*COLUMNS, *COSTS, *like))


def _is_known(name: str) -> bool:
    """Tell whether every run can have such a figure."""
    return name in COLUMNS or name in COSTS or percentile_of(name) is not None


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _space(study: "Study") -> Axes:
    variants: Axes = {VARIANT: list(study.variants)} if study.variants else {}
    return variants | study.axes


def _fresh(optimiser: "optuna.Study", space: Axes, known: list[Settings]) -> tuple["optuna.Trial", Settings]:
    """Return a trial of a place that was not tried before. There must be one."""
    import optuna

    for _ in range(PATIENCE):
        trial = optimiser.ask()
        place = _choose(trial, space)
        if place not in known:
            return trial, place
        optimiser.tell(trial, state=optuna.trial.TrialState.FAIL)
    # It would have one of those: then another in its order, each as far from the last as can be.
    untried = [place for place in combinations(space) if place not in known]
    place = untried[len(known) * len(untried) // (len(known) + len(untried))]
    optimiser.enqueue_trial({name: space[name].index(value) for name, value in place.items()})
    trial = optimiser.ask()
    return trial, _choose(trial, space)


def _choose(trial: "optuna.Trial", space: Axes) -> Settings:
    """Return a trial's place. Ordered numbers are sampled as integers, so that neighbours count as alike."""
    place: Settings = {}
    for name, values in space.items():
        if all(type(value) in (int, float) for value in values) and values == sorted(values):
            place[name] = values[trial.suggest_int(name, 0, len(values) - 1)]
        else:
            place[name] = values[trial.suggest_categorical(name, list(range(len(values))))]
    return place


def _groups(findings: list[Finding], count: int) -> list[list[Finding]]:
    size = len(findings) // count
    return [findings[index * size : (index + 1) * size] for index in range(count)]

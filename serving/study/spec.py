"""A study as its file says it: what is run, what is varied, and what is asked. README.md has every key."""

from pathlib import Path

from device_model.specs.spec import DeviceError
from serving.scenario.scenario import Scenario, ScenarioError
from serving.scenario.scenario_file import changed, load_scenario, scenario_value, values_of
from serving.study.axes import WORKLOAD, Axes, Settings, axes_of, combinations, variants_of
from serving.study.measures.cost import OF_USERS, Cost
from serving.study.measures.percentiles import (
    METRICS,
    SHOWN,
    Percentile,
    PercentileTarget,
    percentile_of,
    percentiles_like,
)
from serving.study.measures.targets import PRESETS, SHARE, Targets
from serving.study.point import SEED, VARIANT, Point
from serving.study.point_factory import hardware_of, point_of
from serving.study.preflight import MOST_PLACES, Preflight
from serving.study.questions.capacity import Capacity
from serving.study.questions.compare import Compare
from serving.study.questions.search import Search
from serving.study.questions.sweep import Sweep
from serving.study.study import Question, Study
from serving.study.summary import COLUMNS
from serving.toml_table import AT_LEAST_0, POSITIVE, AllowedNumber, TomlTable
from serving.types import NEVER
from serving.usage_error import UsageError, given_again
from serving.workload.table import WorkloadTable

LAW, OF_WORKLOAD = "law", f"{WORKLOAD}.{SEED}"
# A column has it in its name, of six digits at most.
PERCENT = AllowedNumber(
    "a number above 0 and below 100, with four decimals at most",
    lambda value: 0 < value < 100 and value == round(value, 4),
)
# A column of tables has its numbers in 64 bits.
A_SEED = AllowedNumber(
    f"a whole number from 0 to {2**63 - 1}", lambda value: 0 <= value < 2**63 and value == int(value)
)
QUESTIONS: dict[str, type[Question]] = {"sweep": Sweep, "capacity": Capacity, "search": Search, "compare": Compare}


class StudyError(UsageError):
    """A study that cannot be run: one sentence that names the file, the line and what is allowed."""


class StudyTable(TomlTable):
    """A table of a study's file."""

    what = "study"
    failure = StudyError


def load_study(path: Path, requests: int | None = None, law: str | None = None) -> Study:
    """Read a study from a TOML file; `requests` limits the requests of each run, to try it in small; `law` takes the
    place of the file's.

    Raise `StudyError`, `ScenarioError` or `WorkloadError`, which name file, line and key.
    """
    return study_of(StudyTable.load(path), requests, law)


def study_of(table: StudyTable, requests: int | None = None, law: str | None = None) -> Study:
    """Return the study that the whole of a file says. Raise as `load_study` does."""
    scenario = _scenario(table) | ({} if law is None else {LAW: law})
    workload = _workload(table)
    targets = _targets(table)
    question = QUESTIONS[table.word("question", tuple(QUESTIONS))].of(table, targets)
    judged = table.table("judge") or table.below("judge", {})
    found = Study(
        name=table.path.stem,
        title=_words(table, "title", table.path.stem),
        question=question,
        scenario=scenario,
        workload=workload,
        targets=targets,
        axes=axes_of(table),
        variants=variants_of(table),
        seeds=_seeds(table),
        from_s=judged.number("from_s", AT_LEAST_0, 0.0),
        to_s=judged.number("to_s", POSITIVE, NEVER),
        text=table.text,
        requests=requests,
        law=law,
        percentiles=_percentiles(table, question),
        cost=Cost.of(table),
    )
    if found.to_s <= found.from_s:
        raise judged.wrong("to_s", found.to_s, f"after `from_s`, which is {found.from_s:g}")
    judged.end()
    table.end()
    _check_settings(found, table)
    found.question.check(found, table)
    _check_loops(found, _workload_points(found), table)
    Preflight(found).check(table)
    if found.cost:
        found.cost.check(table, hardware_of(found))
    return found


def _check_settings(study: Study, table: TomlTable) -> None:
    """Raise `StudyError` if a setting is given twice, or has nothing to decide, or a law is asked for that the study
    varies."""
    varied = [*study.axes, *(name for settings in study.variants.values() for name in settings)]
    if study.law is not None and LAW in varied:
        raise table.error("question", f"is asked under the law {study.law} (--law), and the study varies `law` itself.")
    _check_tau(study, varied, table)
    _check_seed(study, table)
    for variant, settings in study.variants.items():
        for name in settings:
            if name in study.axes:
                sentence = f"sets `{name}`, which is an axis too: choose one."
                raise table.below("variants", {}).error(variant, sentence)
    for what, values in (*((f"axes.{name}", of) for name, of in study.axes.items()), ("seeds", list(study.seeds))):
        if twice := given_again(values):
            raise _error_at(table, what, f"has {twice[0]!r} twice: once is enough.")


def _check_tau(study: Study, varied: list[str], table: TomlTable) -> None:
    """Raise `StudyError` if `tau` is varied in a mode that asks for none."""
    mode = study.scenario.get("mode", "")
    chosen = {"mode", "fleet"} & set(varied) or "fleet" in study.scenario
    if "tau" in varied and mode.startswith("fixed-") and not chosen:
        sentence = f"is {mode!r}, in which nothing turns on `tau`, which the study varies."
        raise _error_at(table, "scenario.mode", sentence)


def _check_seed(study: Study, table: TomlTable) -> None:
    """Raise `StudyError` if seeds are varied otherwise than by `seeds`: runs that differ in nothing else are judged
    together."""
    for seed in (SEED, OF_WORKLOAD):
        if seed in study.axes:
            raise table.below("axes", {}).error(seed, "is given by `seeds`, a list beside the axes, and is no axis.")
        for variant, settings in study.variants.items():
            if seed in settings and study.seeds:
                of_variant = table.below("variants", {}).below(variant, {})
                raise of_variant.error(seed, "is given by `seeds`, too: choose one.")


def _error_at(table: TomlTable, dotted: str, sentence: str) -> UsageError:
    """Return an error about a key in tables of tables, with the line on which it stands."""
    *tables, key = dotted.split(".")
    for each in tables:
        table = table.below(each, {})
    return table.error(key, sentence)


def _check_loops(study: Study, points: list[Point], table: TomlTable) -> None:
    """Raise `StudyError` if capacities are of users in some places, and of requests a second in others, or if a search
    is about users that a place doesn't have; `points`: with each workload."""
    are_open = {point.users is None for point in points}
    if isinstance(study.question, Capacity) and len(are_open) > 1:
        sentence = "is 'capacity', and the study has closed loops beside open ones: users are no requests a second."
        raise table.error("question", f"{sentence} Ask of each kind in a study of its own.")
    if isinstance(study.question, Search) and True in are_open and OF_USERS in study.question.figures:
        sentence = f"is about `{OF_USERS}`, and only closed loops have users (`workload.arrivals`)."
        raise table.error("search", sentence)


def _workload_points(study: Study) -> list[Point]:
    """Return a point with each variant, and with each value of a workload's axis. Raise `WorkloadError` for one with
    which no run could have a workload, whatever else is varied. What goes wrong in some combinations only, each point
    tells for itself."""
    axes = {name: values for name, values in study.axes.items() if name.startswith(WORKLOAD)}
    varied: Axes = ({VARIANT: list(study.variants)} if study.variants else {}) | axes
    ones: list[Axes] = [{name: [value]} for name, values in varied.items() for value in values] or [{}]
    return [point for one in ones if (point := _with_workload(study, varied | one)) is not None]


def _with_workload(study: Study, varied: Axes) -> Point | None:
    """Return the first point of these settings that has a workload; None if it is too far to look for. Raise the first
    one's `WorkloadError` if there is none."""
    errors: list[UsageError] = []
    for settings in combinations(varied):
        if len(errors) >= MOST_PLACES:
            return None
        point = point_of(study, settings, None)
        try:
            point.workload_made()
        except UsageError as error:
            errors.append(error)
        else:
            return point
    raise errors[0]


def _scenario(table: TomlTable) -> Settings:
    """Return the scenario's keys that are not as they stand, from a table or a file of its own."""
    if isinstance(table.get("scenario"), str):
        return changed(values_of(load_scenario(table.file("scenario"))))
    below = table.table("scenario") or table.below("scenario", {})
    found = {key: scenario_value(key, value, below.where(key)) for key, value in below.values.items()}
    if "axes" in table or "variants" in table:
        return found
    try:
        Scenario(**found)
    except (ScenarioError, DeviceError) as error:
        # What is varied might have made it possible; nothing is.
        raise below.located(ScenarioError.of(error)) from error
    return found


def _workload(table: TomlTable) -> WorkloadTable:
    """Return the workload's tables: those of a file of its own, or of the study's."""
    value = table.get("workload")
    if isinstance(value, str):
        return WorkloadTable.load(table.file("workload"))
    if not isinstance(value, dict):
        raise table.wrong("workload", value, "a table, or the name of a file as seen from this one")
    return WorkloadTable(value, table.path, table.text, (WORKLOAD,))


def _targets(table: TomlTable) -> Targets:
    """Its SLO: by the name of a preset, as a table, or (none) that of each request's class."""
    value = table.get("slo")
    if value is None:
        return Targets(own=True)
    if isinstance(value, str):
        return PRESETS[table.word("slo", tuple(PRESETS))]
    below = table.table("slo")
    assert below is not None
    preset = PRESETS[below.word("preset", tuple(PRESETS))] if "preset" in below else Targets()
    found = Targets(
        below.number("ttft_ms", POSITIVE, preset.ttft_s * 1000) / 1000,
        below.number("tpot_ms", POSITIVE, preset.tpot_s * 1000) / 1000,
        below.number("share", SHARE, preset.share),
        percentiles=_percentile_targets(below),
    )
    below.end(f"{SHOWN} and the like", like=percentiles_like)
    if found.ttft_s == found.tpot_s == NEVER:
        return _without_limits(found, "share" in below)
    return found


def _percentile_targets(table: TomlTable) -> tuple[PercentileTarget, ...]:
    keys = {key: found for key in table.values if (found := percentile_of(key, "ms"))}
    return tuple(PercentileTarget(found, table.number(key, POSITIVE) / 1000) for key, found in keys.items())


def _without_limits(targets: Targets, asks_share: bool) -> Targets:
    """Return targets without limits for each request: those of its class, or else of the highest percentiles, by which
    goodput is counted, and no share of them is asked unless the file says one."""
    if not targets.percentiles:
        return targets._replace(own=True)
    highest = {each.percentile.metric: each.limit_s for each in sorted(targets.percentiles)}
    limits = (highest.get("ttft", NEVER), highest.get("tpot", NEVER))
    return targets._replace(ttft_s=limits[0], tpot_s=limits[1], share=targets.share if asks_share else 0.0)


def _percentiles(table: TomlTable, question: Question) -> tuple[Percentile, ...]:
    """Return the percentiles that runs are to have beside the usual ones: those listed, of all latencies, and those
    that the question is about."""
    listed = table.get("percentiles", [])
    if not isinstance(listed, list):
        raise table.wrong("percentiles", listed, "a list of numbers, such as [75, 99.9]")
    percents = [table.checked("percentiles", each, PERCENT) for each in listed]
    asked = [found for name in question.figures if name not in COLUMNS and (found := percentile_of(name))]
    return tuple(dict.fromkeys([*(Percentile(metric, each) for metric in METRICS for each in percents), *asked]))


def _seeds(table: TomlTable) -> tuple[int, ...]:
    value = table.get("seeds", [])
    if not isinstance(value, list):
        raise table.wrong("seeds", value, "a list of whole numbers")
    if "seeds" in table and not value:
        raise table.wrong(
            "seeds", value, "a list of whole numbers with one at least; left out, each combination runs once"
        )
    for each in value:
        table.checked("seeds", each, A_SEED)
    return tuple(map(int, value))


def _words(table: TomlTable, key: str, default: str) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise table.wrong(key, value, "a sentence")
    return value

"""Mode verdict: where speculating is worth it, and which mode does best there, by a study that varies `mode`."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from serving.scenario.options import KEYS
from serving.scenario.scenario import Scenario
from serving.simulation.seed_noise import BySeed, Gap, gap_between, percent
from serving.study.axes import LOAD, WORKLOAD
from serving.study.point import VARIANT
from serving.study.questions import pooled, with_all_seeds
from serving.study.questions.capacity import Capacity, held_by_seed, is_beyond, is_short
from serving.study.report.units import listed, setting
from serving.study.results import Results
from serving.study.study import Study
from serving.study.summary import Row

MODE, PLAIN = "mode", "fixed-ar"
# Modes are alike if they differ by no more than this.
ALIKE = 0.02
MOST_PLACES = 6


class ModeResult(NamedTuple):
    """What a mode came to at a place: its `worth`, more of which is better, joules a token, and the worth that it has
    with each seed."""

    mode: str
    worth: float
    j_per_token: float
    by_seed: BySeed


class Measure(NamedTuple):
    """What modes are compared by: its name, as in "twice ...", the worth of a point or an answer, and the share
    to which that is known."""

    name: str
    worth: Callable[[Row], float]
    tolerance: float = 0.0


def mode_verdict(results: Results) -> str:
    """Return the sentence; "" of a study that varies no mode, or varies more from variant to variant."""
    study = results.study
    if not _varies_mode(study):
        return ""
    measure, measured = _measured(results)
    rows = [row for row, _ in measured]
    places: dict[str, list[ModeResult]] = {}
    for row, by_seed in measured:
        result = ModeResult(_mode(study, row), measure.worth(row), row.get("j_per_token", 0.0), by_seed)
        places.setdefault(_place(study, row), []).append(result)
    known = {_place(study, row) for row in rows if not is_beyond(row)}
    untold = {_place(study, row) for row in rows if is_short(row) or _place(study, row) not in known}
    compared = {
        place: found
        for place, found in places.items()
        if len(found) > 1 and max(map(_worth, found)) > 0 and place not in untold
    }
    if not all(any(each.mode == PLAIN for each in found) for found in compared.values()):
        return _told_best({place: _best(found, measure) for place, found in compared.items()}, measure)
    return _verdict(compared, measure)


def _verdict(compared: dict[str, list[ModeResult]], measure: Measure) -> str:
    """Return where speculating is worth it and where not; and where its lead is no more than seeds vary."""
    ahead = {place: found for place, found in compared.items() if _speculates(found)}
    unsure = {place: gap for place, found in ahead.items() if (gap := _within_noise(found, measure))}
    pays = {place: _gain(found, measure) for place, found in ahead.items() if place not in unsure}
    not_so = {place: _best(found, measure) for place, found in compared.items() if place not in ahead}
    untold = {
        place: f"{_gain(ahead[place], measure)}; seeds vary by up to {percent(gap.noise or 0.0)}"
        for place, gap in unsure.items()
    }
    parts = [part for part in (_told("is worth it", pays), _told("is not", not_so)) if part]
    said = [f"Speculating {'; it '.join(parts)}."] if parts else []
    if untold:
        seeds, it = max(gap.seeds for gap in unsure.values()), "it" if parts else "speculating"
        said.append(f"{seeds} seeds cannot tell whether {it} {_told('is worth it', untold)}.")
    return " ".join(said)


def _varies_mode(study: Study) -> bool:
    by_variant = bool(study.variants) and all(set(keys) == {MODE} for keys in study.variants.values())
    return MODE in study.axes or by_variant


def _measured(results: Results) -> tuple[Measure, list[tuple[Row, BySeed]]]:
    """Return what modes are compared by, and each mode's row at each place, with its worth by seed."""
    study, question = results.study, results.study.question
    if isinstance(question, Capacity):
        rows = [row for row in results.answer_rows if not row.get("error")]
        name = "users" if any("users" in row for row in rows) else "load"
        held = Measure(name, lambda row: row.get("users", row.get(LOAD, 0.0)) or 0.0, question.tolerance)
        return held, [(row, held_by_seed(study, row, results.findings)) for row in rows]
    measure = Measure("goodput", lambda row: row["goodput_per_s"])
    if not study.has_targets:
        measure = Measure("speed of a request", lambda row: 1 / row["e2e_mean_s"] if row["e2e_mean_s"] else 0.0)
    return measure, [
        (
            settings | {name: pooled(group, name) for name in ("goodput_per_s", "e2e_mean_s", "j_per_token")},
            {finding.point.seed: measure.worth(finding.row) for finding in group},
        )
        for settings, group in with_all_seeds(results.findings)
    ]


def _mode(study: Study, row: Row) -> str:
    said = study.scenario | study.variants.get(row.get(VARIANT, ""), {}) | row
    return str(said.get(MODE, Scenario().mode))


def _place(study: Study, row: Row) -> str:
    """Return what tells a place from others, in words."""
    names = [name for name in row if name != MODE and (name in KEYS or name.startswith(f"{WORKLOAD}."))]
    if not isinstance(study.question, Capacity):
        names += [name for name in (LOAD,) if name in row]
    if MODE in study.axes and study.variants:
        names.append(VARIANT)
    return listed(setting(name, row[name]) for name in names)


def _worth(result: ModeResult) -> float:
    return result.worth


def _plain(found: list[ModeResult]) -> ModeResult:
    return next((each for each in found if each.mode == PLAIN), max(found, key=_worth))


def _winners(found: list[ModeResult]) -> list[ModeResult]:
    best = max(map(_worth, found))
    return [each for each in found if each.worth >= (1 - ALIKE) * best]


def _speculates(found: list[ModeResult]) -> bool:
    return _plain(found) not in _winners(found)


def _within_noise(found: list[ModeResult], measure: Measure) -> Gap | None:
    """Return by how much the best mode is ahead of plain decoding if seeds may have made all of that, and of the lead
    of each other that is as good; None if not, or if there is a single seed, which can't tell."""
    plain = _plain(found).by_seed
    winners = sorted(_winners(found), key=_worth, reverse=True)
    gaps = [gap_between(each.by_seed, plain, -1, measure.tolerance) for each in winners]
    return gaps[0] if all(gap.noise is not None and gap.is_alike for gap in gaps) else None


def _gain(found: list[ModeResult], measure: Measure) -> str:
    winners, plain = _winners(found), _plain(found)
    best = max(winners, key=_worth)
    times = f"{best.worth / plain.worth:.2f} times the {measure.name}" if plain.worth else f"{measure.name} at all"
    joules = _joules(best.j_per_token / plain.j_per_token) if plain.j_per_token else ""
    return f"{listed(each.mode for each in winners)}: {times} of {plain.mode}{joules}"


def _joules(times: float) -> str:
    if abs(times - 1) < ALIKE:
        return ", as many joules a token"
    return f", {100 * abs(times - 1):.0f} % {'more' if times > 1 else 'fewer'} joules a token"


def _best(found: list[ModeResult], measure: Measure) -> str:
    rest = [each for each in found if each not in _winners(found)]
    worst = min(rest, key=_worth, default=None)
    plain = _plain(found).worth
    less = f"; {worst.mode} {worst.worth / plain:.2f} times its {measure.name}" if worst and plain else ""
    return f"{listed(each.mode for each in _winners(found))}{less}"


def _told_best(places: dict[str, str], measure: Measure) -> str:
    """Return which modes do best, where there is no plain decoding to compare with."""
    return f"Most {measure.name} {', '.join(_each(places))}." if places else ""


def _told(what: str, places: dict[str, str]) -> str:
    if not places:
        return ""
    first = list(_each(places))[:MOST_PLACES]
    more = f" and {len(places) - len(first)} places more" if len(places) > len(first) else ""
    return f"{what} {', '.join(first)}{more}".replace("  ", " ")


def _each(places: dict[str, str]) -> Iterator[str]:
    for place, words in places.items():
        yield f"at {place} ({words})" if place else f"({words})"

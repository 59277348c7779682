"""The answer of a study in a sentence or two, for those who read no table."""

from serving.simulation.seed_noise import percent, within_noise
from serving.study.axes import LOAD
from serving.study.point import VARIANT
from serving.study.questions import by_settings, closeness, with_all_seeds
from serving.study.questions.capacity import Capacity, is_beyond, is_short, leaves_nobody
from serving.study.questions.compare import Compare, is_comparable
from serving.study.questions.lead import Lead, held_by, ranked
from serving.study.questions.search import Search
from serving.study.questions.sweep import Sweep
from serving.study.report.places import MOST_NAMED, USERS, place, places
from serving.study.report.seed_range import MORE_SEEDS, seed_range
from serving.study.report.units import listed, scale, times, words
from serving.study.results import Results
from serving.study.summary import SEEDS, Row

OFFERED, SERVED = "offered_per_s", "served_per_s"
# Of a comparison, the first of these that every run has more than nothing of.
TOLD = ("goodput_per_s", "ttft_p99_s", "tpot_p99_s", "j_per_token", "cost_per_million_tokens")
ALIKE = 0.005


def answer_sentence(results: Results) -> str:
    """Return the answer; "" if there is none to the question."""
    rows = [row for row in results.answer_rows if not row.get("error")]
    told = {Capacity: _capacity, Compare: _compare, Search: _search, Sweep: _sweep}[type(results.study.question)]
    return told(results, rows) if rows else ""


def _capacity(results: Results, rows: list[Row]) -> str:
    held = sorted((row for row in rows if row.get(LOAD)), key=held_by, reverse=True)
    if not held:
        return "No combination holds any load that was tried."
    short, known = [row for row in held if is_short(row)], ranked(rows)
    beyond = [row for row in held if row not in short and row not in known]
    told = [_too_short(results, short, len(rows))] if short else []
    if beyond:
        told.append(f"{places(beyond)} {_verb(beyond)} every load that was tried, up to `most`.")
    if known:
        told.append(_ranked(results, known, len(rows) == 1, bool(told)))
    none = f"; {len(rows) - len(held)} of {len(rows)} combinations hold none" if len(rows) > len(held) else ""
    one = known and known[0].get(SEEDS) == 1
    varies = _varies("that varies" if len(rows) == 1 else "these vary") if one else ""
    return f"{' '.join(told).removesuffix('.')}{none}.{varies}"


def _varies(what: str) -> str:
    """Return the sentence that one seed tells nothing of the spread."""
    return f" One seed cannot tell how far {what}: {MORE_SEEDS}"


def _too_short(results: Results, short: list[Row], count: int) -> str:
    """Return what there is to say of rows that hold whatever comes, as all that comes is over before it is late: what
    they offer is no load that they could go on with, and tells nothing of who holds more."""
    which = f"any of {count} combinations" if len(short) == count > 1 else places(short) if count > 1 else "it"
    holds = "hold" if 1 < len(short) < count else "holds"
    served = f" than {_rate(SERVED, short[0])}" if count == 1 and SERVED in short[0] else ""
    cut = results.study.requests
    longer = f"it is cut to {cut} requests: give more" if cut else "give it more `requests`, or a longer `duration_s`"
    why = f"hardly more{served} is served, and the targets are kept to its end"
    if all(map(leaves_nobody, short)):
        why, longer = "nobody comes in the window of `judge`", f"{longer}; or lower `from_s`"
    return f"The workload is too short to tell what {which} {holds}: at twice the load {why} ({longer})."


def _ranked(results: Results, held: list[Row], alone: bool, others: bool) -> str:
    """Return which of rows hold most, and least; `alone`: there is but one combination; `others` were told of."""
    most, within = _most(results, held)
    least = _as_much_as(held[-1], held)
    if others and len(held) == 1:
        return f"{places(most)} holds {_amount(most)}."
    which = (
        "It holds " if alone else f"{'Of the others, ' if others else ''}{places(most)} {_verb(most)} most{within}: "
    )
    also = ""
    # How often requests come of which there is but one, nobody can tell.
    if held[-1] not in most and held_by(least[0]):
        does = "does" if len(least) == 1 else "do"
        ratio = f"{_at_least(most)}{times(held_by(most[0]) / held_by(least[0]))}"
        also = f", {ratio} times what {places(least)} {does}, which {_verb(least)} least"
    return f"{which}{_amount(most[:1] if within else most)}{also}."


def _most(results: Results, held: list[Row]) -> tuple[list[Row], str]:
    """Return the rows that hold most, and if they only can't be told from each other within what: with several seeds
    those that the best is not ahead of by more than seeds vary, with one those that hold as much."""
    for lead in results.leads:
        if lead.alike and lead.noise is not None:
            return [row for row in held if lead.has(row)], f", {_within(lead, results)}"
    return _as_much_as(held[0], held), ""


def _as_much_as(one: Row, rows: list[Row]) -> list[Row]:
    """Return the rows that hold as much as one of them, as far as is told."""
    users = one.get(USERS)
    return [row for row in rows if (users and row.get(USERS) == users) or _told_of(row) == _told_of(one)]


def _verb(rows: list[Row]) -> str:
    return "holds" if len(rows) == 1 else "hold"


def _amount(rows: list[Row]) -> str:
    """Return what rows hold that hold as much; if they are several, each of them."""
    told = [_told_of(row) for row in rows]
    found = told[0] if len(set(told)) == 1 else f"{rows[0][USERS]} users"
    if len(rows) == 1 and (within := seed_range(rows[0])):
        by_seed = f"{within} by seed" if " to " in within else "as much with each seed"
        found = f"{found.removesuffix(')')}; {by_seed})" if found.endswith(")") else f"{found} ({by_seed})"
    return _at_least(rows) + found + (" each" if len(rows) > 1 else "")


def _at_least(rows: list[Row]) -> str:
    return "at least " if any(map(is_beyond, rows)) else ""


def _told_of(row: Row) -> str:
    offered = _rate(OFFERED, row)
    return f"{row[USERS]} users ({offered})" if row.get(USERS) else offered


def _rate(name: str, row: Row) -> str:
    return scale(name, [row[name]]).text(row[name])


def _sweep(results: Results, rows: list[Row]) -> str:
    found = {"most" if lead.sign < 0 else "least": lead for lead in results.leads}
    # In the order of the rows: by goodput, by energy.
    of_rows = [found.get(row["best by"].split()[0]) for row in rows]
    parts = [_best_by(results, row, lead) for row, lead in zip(rows, of_rows, strict=True)]
    if not any(map(_is_alike, of_rows)) and len(rows) > 1 and place(rows[0], ()) == place(rows[1], ()):
        parts = [f"{listed(row['best by'] for row in rows)}: {place(rows[0], ())} ({_figures(rows[0])})"]
    told = "; ".join(parts)
    return f"{told[0].upper()}{told[1:]}.{_of_one_seed(list(found.values()))}{_left_out(results)}"


def _left_out(results: Results) -> str:
    """Return which places of a sweep are not compared, as they miss their targets, or as seeds failed there; "" if
    there is none."""
    whole = with_all_seeds(results.findings)
    missed: list[Row] = [dict(settings) for settings, group in whole if closeness(group, results.study.needs) < 1]
    partly: list[Row] = [dict(each[0]) for each in by_settings(results.findings) if each not in whole]
    as_they = "it misses" if len(missed) == 1 else "they miss"
    told = f" Left out, as {as_they} the targets: {places(missed, ())}." if missed else ""
    return told + (f" Left out, as a seed failed there: {places(partly, ())}." if partly else "")


def _best_by(results: Results, row: Row, lead: Lead | None) -> str:
    if lead is None or not lead.alike:
        return f"{row['best by']}: {place(row, ())} ({_figures(row)})"
    return f"{row['best by']}: {_winners(lead)}, {_within(lead, results)} ({place(row, ())}: {_figures(row)})"


def _is_alike(lead: Lead | None) -> bool:
    return lead is not None and bool(lead.alike)


def _winners(lead: Lead) -> str:
    """Return the places that can't be told from the best, and it, in words."""
    return places([lead.first, *lead.alike], ())


def _within(lead: Lead, results: Results) -> str:
    """Return within what the winners are alike."""
    question = results.study.question
    if isinstance(question, Capacity) and lead.noise == question.tolerance:
        return f"alike within the study's tolerance, {percent(lead.noise)}"
    return within_noise(lead.noise, lead.gap.seeds, len(lead.alike)) if lead.noise else "which are the same"


def _of_one_seed(found: list[Lead]) -> str:
    """Return the sentence that one seed can't tell a lead from chance, and how to ask for more; "" if there are several
    seeds, or no leads."""
    unknown = [lead for lead in found if lead.gap.noise is None and not lead.alike]
    if not unknown:
        return ""
    over = listed(f"of {percent(lead.gap.lead)} over {place(lead.next, ())}" for lead in unknown)
    which, are = ("a lead", "is") if len(unknown) == 1 else ("leads", "are")
    return f" One seed cannot tell whether {which} {over} {are} more than chance: {MORE_SEEDS}"


def _figures(row: Row) -> str:
    return ", ".join(scale(name, [row[name]]).text(row[name]) for name in ("goodput_per_s", "j_per_token"))


def _search(results: Results, rows: list[Row]) -> str:
    question = results.study.question
    assert isinstance(question, Search)
    (row,) = rows
    if question.figure not in row:
        # What a token costs is unknown where there are none.
        return f"No place serves anybody{' with each seed' if len(results.study.seeds) > 1 else ''}."
    found = scale(question.figure, [row[question.figure]]).text(row[question.figure])
    most = "most" if question.sign < 0 else "least"
    if not row["kept"]:
        return f"No place keeps all bounds; {place(row, ())} comes closest, with {found} of {words(question.figure)}."
    what, tried = f"the {most} {words(question.figure)}", f"of {row['tried']} places"
    for lead in results.leads:
        if lead.alike:
            return f"{_winners(lead)} have {what} {tried}, {_within(lead, results)}: {found}."
        return f"{place(row, ())} has {what} {tried}: {found}.{_of_one_seed([lead])}"
    return f"{place(row, ())} has {what} {tried}: {found}."


def _compare(results: Results, rows: list[Row]) -> str:
    question = results.study.question
    assert isinstance(question, Compare)
    others = [name for name in results.study.variants if name != question.baseline]
    known = [row for row in rows if is_comparable(row)]
    why = "Where one of both serves nobody" if any(row["tokens_per_s"] for row in rows) else "As nobody is served"
    nowhere = "" if len(known) == len(rows) else f"{why}, nothing is compared."
    ratios = [
        f"{name} has {_spans([row for row in known if row[VARIANT] == name])}"
        for name in others[:MOST_NAMED]
        if any(row[VARIANT] == name for row in known)
    ]
    left = len(others) - MOST_NAMED
    more = f"; and {left} {'variant' if left == 1 else 'variants'} more" if left > 0 else ""
    varies = "" if len(results.study.seeds) > 1 else _varies("these vary")
    beside = f"Beside {question.baseline}: {'; '.join(ratios)}{more}." if ratios else ""
    return f"{' '.join(filter(None, (beside, nowhere)))}{varies if ratios else ''}"


def _spans(rows: list[Row]) -> str:
    """Return how many times the baseline's the figures are, over all places on the axes."""
    known = [name for name in TOLD if all(0 < row.get(f"{name} /base", 0.0) < float("inf") for row in rows)]
    return listed(f"{_span([row[f'{name} /base'] for row in rows])} {words(name)}" for name in known)


def _span(ratios: list[float]) -> str:
    if max(abs(ratio - 1) for ratio in ratios) < ALIKE:
        return "as much"
    ends = dict.fromkeys((times(min(ratios)), times(max(ratios))))
    return f"{' to '.join(ends)} times the"

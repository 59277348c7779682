"""Leads of policies: which of them serve most in time, or take the fewest joules, beyond what seeds vary."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from serving.simulation.seed_noise import BySeed, Gap, gap_between, percent, ranking

Row = dict[str, Any]
# What is wanted, the figure, and whether it is the most (-1) or the least (1) of it.
SOUGHT = (("most goodput", "goodput_per_s", -1), ("fewest joules", "j_per_token", 1))
SEEDS, BY_SEED = "seeds", "by_seed"


class PolicyLead(NamedTuple):
    """The policies that can't be told from the `first` one of a kind, at a load, by a figure; by how much it is ahead
    of the next one, and what seeds vary (None: there is but one)."""

    kind: str
    load: float
    sought: str
    first: str
    alike: list[str]
    lead: float
    noise: float | None


def leads(runs: Sequence[Row]) -> Iterator[PolicyLead]:
    """Yield the leads of each kind of policies at each load."""
    for (kind, load), rows in groupby(runs, key=lambda row: (row["kind"], row["load"])):
        same = list(rows)
        for sought, figure, sign in SOUGHT:
            best = sorted(same, key=lambda row: sign * row[figure])
            found = ranking([(row["policy"], by_seed(row, figure)) for row in best], sign)
            yield PolicyLead(kind, load, sought, found.first, found.alike, found.gap.lead, found.noise)


def by_seed(row: Row, figure: str) -> BySeed:
    """Return a figure of a policy's runs with each seed."""
    return {seed: found[figure] for seed, found in zip(row[SEEDS], row[BY_SEED], strict=True)}


def lead_sentences(runs: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each kind on the policies that are ahead; none of a single seed, which can't tell."""
    found = [each for each in leads(runs) if each.noise is not None]
    policies = {kind: {row["policy"] for row in runs if row["kind"] == kind} for kind in {each.kind for each in found}}
    for kind, of_kind in groupby(found, key=lambda each: each.kind):
        told = sorted(of_kind, key=lambda each: [sought for sought, _, _ in SOUGHT].index(each.sought))
        parts = [
            f"{sought} at {', at '.join(_told(each, len(policies[kind])) for each in group)}"
            for sought, group in groupby(told, key=lambda each: each.sought)
        ]
        yield f"{kind.capitalize()}: {'; '.join(parts)}."


def _told(lead: PolicyLead, policies: int) -> str:
    if len(lead.alike) == policies - 1:
        return f"{lead.load:g} all alike"
    names = [lead.first, *lead.alike]
    if len(names) == 1:
        return f"{lead.load:g} {_quoted(names)}, by {percent(lead.lead)}"
    return f"{lead.load:g} {_quoted(names)}"


def _quoted(names: Sequence[str]) -> str:
    *most, last = [f"`{name}`" for name in names]
    return f"{', '.join(most)} and {last}" if most else last


def gap_in_words(row: Row, other: Row, figure: str) -> str:
    """Return by how much a policy has more of a figure than another, and how much of that seeds may make: "+1.2 %" or
    "+1.2 ± 0.4 %"."""
    more = round(100 * (row[figure] / other[figure] - 1), 1) + 0.0
    gap: Gap = gap_between(by_seed(row, figure), by_seed(other, figure), -1)
    return f"{more:+.1f} %" if gap.noise is None else f"{more:+.1f} ± {100 * gap.noise:.1f} %"

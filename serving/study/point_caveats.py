"""Caveats of a point, in a few words each: what of its figures rests on more than was published or measured, or on too
few requests."""

from math import ceil

from serving.simulation.model_caveats import LITTLE, unmeasured
from serving.study.study import Finding
from serving.study.summary import Row

LAW, BEYOND, NEVER_SERVED = "more hits than HB holds by the paper's law", "beyond the paper", "requests never served"
FEW = "few requests judged"
# By the rule of three, if none of n requests is late, up to 3/n of all may be (with a confidence of 95 %).
RULE_OF_THREE = 3


def point_caveats(runs: list[Finding]) -> list[str]:
    """Return what is to be known of a point that was made, and of its figures; `runs`: it with one seed, or with
    several that are told of together."""
    found = dict.fromkeys(each for run in runs for each in _of_run(run))
    return [*found, *([FEW] if is_few(judged_of(runs), runs[0].point.asked_share) else [])]


def judged_of(runs: list[Finding]) -> int:
    """Return how many requests of runs are judged."""
    return sum(run.row["judged"] for run in runs)


def is_few(judged: int, share: float) -> bool:
    """Tell whether requests were judged (some were), but fewer than can tell whether a `share` of them is in time."""
    return 0 < judged < enough(share)


def enough(share: float) -> int:
    """Return how many requests tell whether a share of all is in time; 0 if none is asked (`share` 0)."""
    return ceil(round(RULE_OF_THREE / (1 - share), 6)) if share else 0


def _of_run(run: Finding) -> list[str]:
    row: Row = run.row
    members = dict.fromkeys(run.point.scenario.members)
    found = list(filter(None, (unmeasured(member, run.point.scenario.model) for member in members)))
    found += [LAW] if row["beyond_hb_share"] > LITTLE else []
    found += [BEYOND] if row["unpublished_share"] > LITTLE else []
    return found + ([NEVER_SERVED] if row["never_served"] > LITTLE * row["requests"] else [])

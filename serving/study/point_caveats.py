"""Caveats of a point, in a few words each: what of its figures rests on more than was published or measured, or on too
few requests."""

from serving.simulation.few_requests import is_few
from serving.simulation.model_caveats import LITTLE, unmeasured
from serving.study.study import Finding
from serving.study.summary import Row

LAW, BEYOND, NEVER_SERVED = "more hits than HB holds by the paper's law", "beyond the paper", "requests never served"
FEW = "few requests judged"


def point_caveats(runs: list[Finding]) -> list[str]:
    """Return what is to be known of a point that was made, and of its figures; `runs`: it with one seed, or with
    several that are told of together."""
    found = dict.fromkeys(each for run in runs for each in _of_run(run))
    return [*found, *([FEW] if is_few(judged_of(runs), runs[0].point.asked_share) else [])]


def judged_of(runs: list[Finding]) -> int:
    """Return how many requests of runs are judged."""
    return sum(run.row["judged"] for run in runs)


def _of_run(run: Finding) -> list[str]:
    row: Row = run.row
    members = dict.fromkeys(run.point.scenario.members)
    found = list(filter(None, (unmeasured(member, run.point.scenario.model) for member in members)))
    found += [LAW] if row["beyond_hb_share"] > LITTLE else []
    found += [BEYOND] if row["unpublished_share"] > LITTLE else []
    return found + ([NEVER_SERVED] if row["never_served"] > LITTLE * row["requests"] else [])

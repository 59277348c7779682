"""Caveats of a point, in a few words each: what of its figures rests on more than was published or measured."""

from serving.simulation.model_caveats import LITTLE, unmeasured
from serving.study.point import Point
from serving.study.summary import Row

LAW, BEYOND, NEVER_SERVED = "more hits than HB holds by the paper's law", "beyond the paper", "requests never served"


def point_caveats(point: Point, row: Row) -> list[str]:
    """Return what is to be known of a point that was made, and of its figures."""
    members = dict.fromkeys(point.scenario.members)
    found = list(dict.fromkeys(filter(None, (unmeasured(member, point.scenario.model) for member in members))))
    found += [LAW] if row["beyond_hb_share"] > LITTLE else []
    found += [BEYOND] if row["unpublished_share"] > LITTLE else []
    return found + ([NEVER_SERVED] if row["never_served"] > LITTLE * row["requests"] else [])

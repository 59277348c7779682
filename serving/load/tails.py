"""Tails of a run: how far its slowest first tokens are the host's and not the devices'.

A mean can be right where a p99 is not: a few requests that a busy host kept waiting are all of it. The devices' own
TTFT is known by the buckets of a histogram, so that only what lies beyond a bucket's bounds is said to be the host's.
"""

from bisect import bisect_right
from itertools import pairwise
from math import ceil
from typing import NamedTuple

LIMIT = 0.05
"""Share of a percentile: above it, the percentile is the host's."""
ATTAINMENT_LIMIT = 0.01
"""Share of requests: if so many more kept a limit on the devices than clients saw, the attainment is the host's."""


class ModelledTtft(NamedTuple):
    """The devices' TTFT in a run: upper bounds of buckets in emulated seconds, and the requests up to each of them."""

    bounds_s: tuple[float, ...]
    counts: tuple[float, ...]

    def at_most_s(self, quantile: float) -> float | None:
        """Return the upper bound of the bucket that a quantile lies in; None if nothing was counted."""
        # Numpy's lies between two of the sorted values: the second of them bounds it.
        before = ceil(quantile * (self.counts[-1] - 1)) if self.counts else 0
        return next((bound for bound, count in zip(*self, strict=True) if count > before), None)

    def surely_within(self, limit_s: float) -> float:
        """Return the least share of requests that can have been within a limit: those of buckets that end there."""
        place = bisect_right(self.bounds_s, limit_s) - 1
        return self.counts[place] / self.counts[-1] if place >= 0 and self.counts[-1] else 0.0


def modelled_ttft(grown: dict[float, float]) -> ModelledTtft | None:
    """Return the TTFT of a histogram's growth in a run, by upper bound; None if it has none or can't be one."""
    bounds = tuple(sorted(grown))
    counts = tuple(grown[bound] for bound in bounds)
    if not counts or counts[-1] <= 0 or any(more < less for less, more in pairwise(counts)):
        return None
    return ModelledTtft(bounds, counts)


def percentile_refusal(modelled: ModelledTtft, quantile: float, seen_s: float) -> str | None:
    """Return why a percentile of the TTFT that clients saw says nothing of the devices; None if it does."""
    most_s = modelled.at_most_s(quantile)
    if most_s is None or seen_s * (1 - LIMIT) <= most_s:
        return None
    return (
        f"The p{quantile * 100:g} of the TTFT is the host's: {seen_s * 1e3:,.4g} ms as clients saw it, "
        f"{most_s * 1e3:,.4g} ms at most on the devices"
    )


def attainment_refusal(modelled: ModelledTtft, limit_s: float, seen: float) -> str | None:
    """Return why there is no verdict on a TTFT limit that a share `seen` of the requests kept; None if there is."""
    on_devices = modelled.surely_within(limit_s)
    if on_devices - seen <= ATTAINMENT_LIMIT:
        return None
    return (
        f"No SLO verdict: the host is too slow for this tail: {seen:.1%} of the first tokens came within "
        f"{limit_s * 1e3:g} ms, and {on_devices:.1%} or more left the devices within it"
    )

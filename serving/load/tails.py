"""Tails of a run: how far its slowest tokens are the host's and not the devices'.

A mean can be right where a p99 is not: a few requests that a busy host kept waiting are all of it. The devices' own
latencies are known by the buckets of histograms, so that only what lies beyond a bucket's bounds is said to be the
host's.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

LIMIT = 0.05
"""Share of a percentile: above it, the percentile is the host's."""
ATTAINMENT_LIMIT = 0.01
"""Share of requests: if so many more kept a limit on the devices than clients saw, the attainment is the host's."""
SHOWN = (0.5, 0.9, 0.99)
"""Quantiles that are shown, and checked."""
FAMILIES = {
    "ttft": "vllm:time_to_first_token_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
}
"""The emulated devices' histogram of each latency."""


class ModelledLatency(NamedTuple):
    """A latency on the devices in a run: upper bounds of buckets in emulated seconds, and the count up to each."""

    bounds_s: tuple[float, ...]
    counts: tuple[float, ...]

    def at_most_s(self, quantile: float, of: float | None = None) -> float | None:
        """Return the upper bound of the bucket that a quantile lies in, or of that which the quantile `of` so many of
        the values, whichever they are, can lie in at most; None if nothing was counted."""
        total = self.counts[-1] if self.counts else 0
        part = total if of is None else min(of, total)
        # Numpy's lies between two of the sorted values: the second of them bounds it. Those of a part may be the
        # largest of all.
        before = ceil(quantile * (part - 1)) + total - part
        return next((bound for bound, count in zip(*self, strict=True) if count > before), None)

    def surely_within(self, limit_s: float) -> float:
        """Return the least share that can have been within a limit: those of buckets that end there."""
        place = bisect_right(self.bounds_s, limit_s) - 1
        return self.counts[place] / self.counts[-1] if place >= 0 and self.counts[-1] else 0.0


class TailRefusal(NamedTuple):
    """Why a figure of the tail says nothing of the devices; the host took `times` as long as it may."""

    sentence: str
    times: float


def modelled_latency(grown: Mapping[float, float]) -> ModelledLatency | None:
    """Return the latencies of a histogram's growth in a run, by upper bound; None if it has none or can't be one."""
    bounds = tuple(sorted(grown))
    counts = tuple(grown[bound] for bound in bounds)
    if not counts or counts[-1] <= 0 or any(more < less for less, more in pairwise(counts)):
        return None
    return ModelledLatency(bounds, counts)


def percentile_refusal(
    name: str, modelled: ModelledLatency, quantile: float, seen_s: float, of: float | None = None
) -> TailRefusal | None:
    """Return why a percentile of a latency (`name`: TTFT) that clients saw says nothing of the devices; None if it
    does. `of`: it is that of so many requests among all."""
    most_s = modelled.at_most_s(quantile, of)
    if most_s is None or seen_s * (1 - LIMIT) <= most_s:
        return None
    sentence = (
        f"The p{quantile * 100:g} of the {name} is the host's: {seen_s * 1e3:,.4g} ms as clients saw it, "
        f"{most_s * 1e3:,.4g} ms at most on the devices"
    )
    return TailRefusal(sentence, (seen_s - most_s) / (LIMIT * most_s))


def percentile_refusals(
    name: str, modelled: ModelledLatency, seen_s: Sequence[float], of: float | None = None
) -> dict[float, TailRefusal]:
    """Return the quantiles of a latency, of those that are shown, that say nothing of the devices, and why; `of` as of
    `percentile_refusal`."""
    values_s = np.percentile(seen_s, [100 * quantile for quantile in SHOWN]).tolist() if seen_s else []
    found = {
        quantile: percentile_refusal(name, modelled, quantile, value_s, of)
        for quantile, value_s in zip(SHOWN, values_s, strict=False)
    }
    return {quantile: refusal for quantile, refusal in found.items() if refusal}


def attainment_refusal(
    name: str, modelled: ModelledLatency, limit_s: float, seen_s: Sequence[float]
) -> TailRefusal | None:
    """Return why there is no verdict on a limit of a latency, of which clients saw so many values; None if there is."""
    within = sum(value <= limit_s for value in seen_s) / len(seen_s) if seen_s else 0.0
    on_devices = modelled.surely_within(limit_s)
    if not seen_s or on_devices - within <= ATTAINMENT_LIMIT:
        return None
    sentence = (
        f"No SLO verdict: the host is too slow for this tail: {within:.1%} of the requests had a {name} within "
        f"{limit_s * 1e3:g} ms, and {on_devices:.1%} or more had it on the devices"
    )
    # By how much clients saw what was at the limit on the devices, or sooner.
    beyond_s = float(np.quantile(seen_s, on_devices)) - limit_s
    return TailRefusal(sentence, beyond_s / (LIMIT * limit_s))

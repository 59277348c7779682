"""What routes say of a model's locality, as ELMoE-3D's Fig. 16 asks: how often an LRU cache has an expert, over its
size and the batch, and how many experts tokens touch together; beside what the laws of `experts` expect.

    requests = [routes of one request's generated tokens, [tokens, layers, top_k], ...]
    lanes = in_lanes(requests, batch=8, steps=200, draw=draw)       # as continuous batching would run them
    lru_hit_rate(lanes, routers, share=0.5)
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from device_model.experts.locality_laws import Experts, PassTokens
from device_model.experts.residency import Lru, Routes, tally
from device_model.experts.route_map import Routers
from device_model.specs.calibrated import Locality, Speculation
from device_model.step import FloatArray

WARM_UP = 0.25  # of a run: an LRU starts empty


def in_lanes(requests: Sequence[Routes], batch: int, steps: int, draw: np.random.Generator) -> Routes:
    """Routes [steps, batch, layers, top_k] of `steps` decode steps: each lane runs one request after another, drawn
    without putting back until all have had their turn. ValueError if there is no request with a token."""
    requests = [routes for routes in requests if len(routes)]
    if not requests:
        raise ValueError("There is no request with routes; lanes need at least one")
    lanes = []
    for _ in range(batch):
        lane: list[Routes] = []
        while sum(map(len, lane)) < steps:
            lane += [requests[index] for index in draw.permutation(len(requests))]
        lanes.append(np.concatenate(lane)[:steps])
    return np.stack(lanes, axis=1)


def lru_hit_rate(lanes: Routes, routers: Routers, share: float) -> float:
    """Hits of all reads of an LRU cache with room for `share` of all slices, after warming up."""
    cache, slices = Lru(routers.layers, routers.experts), int(share * routers.layers * routers.experts)
    reads = [cache.commit(routes, slices) for routes in lanes][int(WARM_UP * len(lanes)) :]
    return sum(read.hits for read in reads) / sum(read.touched for read in reads)


def touched(groups: Sequence[Routes], routers: Routers) -> float:
    """Mean share of all experts that the tokens of a group [tokens, layers, top_k] touch together."""
    counts = [(tally(routes, routers.layers, routers.experts) > 0).mean() for routes in groups]
    return float(np.mean(counts))


def runs(requests: Sequence[Routes], length: int) -> list[Routes]:
    """All runs of `length` tokens that follow each other in a request, end to end: what SD verifies at once."""
    return [
        routes[start : start + length] for routes in requests for start in range(0, len(routes) - length + 1, length)
    ]


def usage(requests: Sequence[Routes], routers: Routers) -> FloatArray:
    """Share of the choices of a layer that each expert gets [layers, experts], summing to 1 in a layer."""
    counts = sum(tally(routes, routers.layers, routers.experts) for routes in requests) + np.zeros(routers[:2])
    shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
    return shares


def top_quarter(of_topic: FloatArray) -> FloatArray:
    """Share of the choices [layers] that the quarter of the experts with most of them gets; 0.25 if all are alike."""
    quarter = of_topic.shape[1] // 4
    largest: FloatArray = np.sort(of_topic, axis=1)[:, -quarter:].sum(axis=1)
    return largest


def law(routers: Routers, locality: Locality, speculation: Speculation) -> Experts:
    """Return the laws of `experts` for these routers."""
    return Experts(routers.experts, routers.top_k, locality, speculation)


def fit(
    routers: Routers,
    hits: dict[tuple[float, int], float],
    together: dict[tuple[int, int], float],
    speculation: Speculation,
) -> tuple[Locality, Speculation]:
    """Fit the laws' figures: those that come closest, in the mean square, to measured `hits` by (share, batch) and
    shares touched `together` by (sequences, tokens of each). What Table 3 is fitted with is fitted here to routes."""
    # Table 3's caches that are too small to be of use are a property of that device: here any cache serves.
    any_cache = dataclasses.replace(speculation, least_share_of_top_k=1e-3)

    def candidate(x: FloatArray) -> Locality:
        spread, hit, draft = (float(value) for value in x)
        return Locality(spread, hit, 1.0, draft, 1.0)

    def residuals(x: FloatArray) -> list[float]:
        experts = law(routers, candidate(x), any_cache)
        off = [float(experts.hits(share, PassTokens(batch, 1))) - rate for (share, batch), rate in hits.items()]
        return off + [experts.touched(PassTokens(*tokens)) - found for tokens, found in together.items()]

    found = least_squares(residuals, [0.5, 0.5, 0.6], bounds=([1e-3, 0.05, 0.05], [50.0, 3.0, 1.0]))
    return candidate(found.x), any_cache

"""Routes of one model standing for those of another, so that what a small model's routers really choose can be what the
cache of a large one is asked for.

    as_target = RouteMap(Routers(layers=4, experts=64, top_k=8), Routers(layers=48, experts=128, top_k=8))
    as_target(routes)       # [tokens, 4, 8] -> [tokens, 48, 8]

The rule, for a source and a target:
1. Layer l of the target follows layer floor(l Ls / Lt) of the source: neighbours share one, so that their caches hit
   and miss together. A rate is the mean of Ls layers, not of Lt.
2. Experts are renumbered in proportion. Where the target has more, each expert of the source stands for a run of them
   (2 of 128 for each of 64); where it has fewer, neighbours merge (2 of 64 into 1 of 32).
3. A token asks for the first top-k of the target that it meets on its way down the source's choices, by falling score.
   A run that is too long for what is left is entered at a place that depends on the token, so that all of it is used.
4. Only if the source chose too few is the rest filled up, with the experts next to those chosen.

By 2 an expert's share of the choices is that of its forebears: popularity carries over, and what follows each other in
time stays so.
"""

from typing import NamedTuple

import numpy as np

from device_model.experts.residency import BoolArray, Routes
from device_model.step import FloatArray


class Routers(NamedTuple):
    """The routers of a model: `layers` that have `experts`, of which each token gets `top_k`."""

    layers: int
    experts: int
    top_k: int


class RouteMap:
    """Maps routes of `source` to routes of `target`. Deterministic, and the same for every token by itself."""

    def __init__(self, source: Routers, target: Routers) -> None:
        """ValueError for routers without layers or experts, or with more to choose than there are."""
        for routers in (source, target):
            if routers.layers < 1 or not 1 <= routers.top_k <= routers.experts:
                raise ValueError(f"{routers} can't route: at least 1 layer, and 1 to {routers.experts} of its experts.")
        self.source, self.target = source, target
        self._layers = np.arange(target.layers) * source.layers // target.layers

    def __call__(self, routes: Routes) -> Routes:
        """Routes [tokens, Ls, Ks] in falling order of score, as [tokens, Lt, Kt]. ValueError for another shape."""
        if routes.ndim != 3 or routes.shape[1:] != (self.source.layers, self.source.top_k):
            shape = (self.source.layers, self.source.top_k)
            raise ValueError(f"Routes have the shape [tokens, {shape[0]}, {shape[1]}], not {routes.shape}.")
        chosen: Routes = self._first(self._stand_ins(routes.astype(np.int64, copy=False)))[:, self._layers]
        return chosen

    def stood_for(self, held: BoolArray) -> FloatArray:
        """Return of each expert of the source [Ls, Es] which share of its stand-ins is among those `held` [Lt, Et]."""
        source, target = self.source.experts, self.target.experts
        if target <= source:
            of_layer = held[:, np.arange(source) * target // source].astype(np.float64)
        else:
            runs = np.arange(target) * source // target == np.arange(source)[:, None]
            of_layer = held @ (runs / runs.sum(axis=1, keepdims=True)).T
        follows = self._layers == np.arange(self.source.layers)[:, None]
        share: FloatArray = follows @ of_layer / np.maximum(follows.sum(axis=1, keepdims=True), 1)
        return share

    def _stand_ins(self, routes: Routes) -> Routes:
        """Return the target's experts [tokens, Ls, any] that each token meets, in order; merged ones more than once."""
        source, target = self.source.experts, self.target.experts
        if target <= source:
            merged: Routes = routes * target // source
            return merged
        # Expert e stands for those j with floor(j source / target) = e: the run from ceil(e target / source) on.
        first = -(-routes * target // source)
        length = -(-(routes + 1) * target // source) - first
        place = np.arange(-(-target // source))
        turned = (routes.sum(axis=-1)[..., None, None] + place) % length[..., None]
        run = first[..., None] + turned
        # Of runs that differ in length the shorter ones have come round: their repeats are dropped with all others.
        met: Routes = run.reshape(*routes.shape[:2], routes.shape[2] * len(place))
        return met

    def _first(self, met: Routes) -> Routes:
        """Return the first top-k experts that differ, of those met and, should they be too few, of their neighbours."""
        wanted = self.target.top_k
        repeated = _repeats(met)
        step = 0
        while (width := met.shape[-1]) < wanted or (width - repeated.sum(axis=-1)).min(initial=wanted) < wanted:
            step += 1
            met = np.concatenate([met, (met[..., : self.source.top_k] + step) % self.target.experts], axis=-1)
            repeated = _repeats(met)
        order = np.argsort(repeated, axis=-1, kind="stable")[..., :wanted]
        first: Routes = np.take_along_axis(met, order, axis=-1)
        return first


def _repeats(met: Routes) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which of the experts met [..., any] stood there before."""
    earlier = np.tri(met.shape[-1], k=-1, dtype=bool)
    repeated: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = (
        (met[..., :, None] == met[..., None, :]) & earlier
    ).any(axis=-1)
    return repeated

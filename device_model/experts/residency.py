"""Expert cache at trace fidelity: holds experts in HB by the ids that a router chose, and counts hits.

    cache = Lru(layers=48, experts=128)
    cache.probe(routes, slices=1500)      # what would the pass find in HB?
    cache.commit(routes, slices=1500)     # the same answer, and HB now holds what the pass left there

A slice is one expert of one layer, in as many bits as HB holds of it: the whole expert for plain caching, its MSB
slice for Elastic-SD. What a slice weighs, and that a hit on an MSB slice still reads its LSB slice from EXT (ELMoE-3D,
Algorithm 1, line 25), is left to who asks.

HB is shared evenly over the layers that have experts. One LRU over all of them would be visited in the same turn by
every pass, and a loop over more than a cache holds evicts exactly what it needs next: with room for 40 of 48 layers it
would find nothing, even if every pass chose the same experts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from device_model.step import IntArray

BoolArray = NDArray[np.bool_]
Routes = IntArray
"""Expert ids [tokens, layers, top_k] that the router chose for each token of a pass."""


class CheckedRoutes(np.ndarray[Any, np.dtype[np.int64]]):
    """Routes of which it is known that each token's experts exist and differ: slices of what was checked once are."""


class Reads(NamedTuple):
    """Slices that a pass reads, each once however many tokens share it. Whole numbers, unless a law expects them."""

    touched: float  # distinct slices read
    hits: float  # those of them that HB held before the pass
    written: float  # those missed that are written into HB as they stream by, and stay
    beyond_hb: float = (
        0.0  # hits that the paper's law has beyond what HB holds: in `hits` under the law `published` only
    )


class Lru:
    """A least-recently-used cache in each layer, starting empty (ELMoE-3D, 7: "cached in HB under an LRU policy").

    HB has room for `slices` of experts: a new number at each call, as the KV cache grows and shrinks (8).

    A layer's routes are known before its experts are fetched, so these are read together: hits are those held before
    the pass, and of more misses than fit only those are written that will stay. More recent is what more tokens chose,
    then the lower id. So a layer that wants a few more experts than fit, the same in every pass, still finds what fits,
    where an LRU that is fed them one by one, in the same order, would find none.
    """

    def __init__(self, layers: int, experts: int) -> None:
        self._recency = empty(layers, experts)
        self._probed: tuple[Routes, int, IntArray | int, Reads, IntArray] | None = None

    @property
    def held(self) -> BoolArray:
        """Slices in HB [layers, experts]."""
        return self._recency > 0

    def copy(self) -> "Lru":
        """Return a cache that holds the same, and goes ways of its own."""
        copied = Lru(*self.shape)
        copied._recency = self._recency
        return copied

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and experts."""
        layers, experts = self._recency.shape
        return layers, experts

    def latest(self, slices: int) -> IntArray:
        """Return the recency [layers, experts] of what stays in room for so many slices, larger if used later; 0 is not
        held. ValueError for slices below 0."""
        return _warmest(self._recency, 0, shares(slices, self.shape[0]))

    def probe(self, routes: Routes, slices: int, hotness: IntArray | int = 0) -> Reads:
        """Return what a pass with `routes` reads. Raise ValueError for routes of another shape or model, or slices
        below 0."""
        reads, after = self._after(routes, slices, hotness)
        self._probed = routes, slices, hotness, reads, after
        return reads

    def commit(self, routes: Routes, slices: int, hotness: IntArray | int = 0) -> Reads:
        """Carry the pass out: evict down to `slices`, count hits, insert misses; the hottest stay if there is
        `hotness` [layers, experts], and of equally hot ones those used last. ValueError as `probe`."""
        probed, self._probed = self._probed, None
        if probed is not None and probed[0] is routes and probed[1] == slices and probed[2] is hotness:
            reads, self._recency = probed[3:]  # it is known what will come of it
        else:
            reads, self._recency = self._after(routes, slices, hotness)
        return reads

    def _after(self, routes: Routes, slices: int, hotness: IntArray | int) -> tuple[Reads, IntArray]:
        return after_pass(self._recency, tally(routes, *self.shape), shares(slices, self.shape[0]), hotness)


def empty(layers: int, experts: int) -> IntArray:
    """Return the recency [layers, experts] of an empty cache. Raise ValueError for a model with no layers or
    experts."""
    if layers < 1 or experts < 1:
        raise ValueError(f"A model has at least one layer and one expert, not {layers} and {experts}.")
    return np.zeros((layers, experts), dtype=np.int64)


def tally(routes: Routes, layers: int, experts: int) -> IntArray:
    """How many tokens chose each slice [layers, experts]: the sum of their one-hot vectors.

    ValueError unless `routes` has ids from 0 to `experts` - 1 in the shape [tokens, layers, top_k], no two of a token
    the same; there may be no tokens.
    """
    if not isinstance(routes, CheckedRoutes):
        check(routes, layers, experts)
    flat = np.asarray(routes).astype(np.int64, copy=False) + experts * np.arange(layers)[:, None]
    return np.bincount(flat.ravel(), minlength=layers * experts).reshape(layers, experts)


def check(routes: Routes, layers: int, experts: int) -> CheckedRoutes:
    """Routes that `tally` need not look through again. ValueError as there."""
    if routes.ndim != 3 or routes.shape[1] != layers or not np.issubdtype(routes.dtype, np.integer):
        raise ValueError(f"Routes are whole numbers [tokens, {layers}, top_k], not {routes.dtype} {routes.shape}.")
    if routes.size and (routes.min() < 0 or routes.max() >= experts):
        raise ValueError(f"Expert ids go from 0 to {experts - 1}; these go from {routes.min()} to {routes.max()}.")
    if any((routes[..., apart:] == routes[..., :-apart]).any() for apart in range(1, routes.shape[2])):
        raise ValueError("A token chose the same expert twice in one layer.")
    return routes.view(CheckedRoutes)


def shares(slices: int, layers: int) -> IntArray:
    """Room of each layer [layers], in slices: evenly, the remainder to the first layers. ValueError for negatives."""
    if slices < 0:
        raise ValueError(f"HB has room for 0 slices or more, not {slices}.")
    return slices // layers + (np.arange(layers) < slices % layers).astype(np.int64)


def after_pass(
    recency: IntArray, counts: IntArray, rooms: IntArray, hotness: IntArray | int = 0
) -> tuple[Reads, IntArray]:
    """Return what a pass reads of a cache, and the cache after it. Pure; arrays [layers, experts] but `rooms` [layers].

    `recency`: what is held, larger if used later; 0 is not held. `counts`: tokens that chose the slice in this pass.
    Held is what is hottest of what was held or read, and of equally hot slices what was used last: without `hotness`
    [layers, experts] it is an LRU cache, and a larger one always holds all that a smaller one does, as the order of
    slices does not depend on the room.
    """
    # Room that is lost, is lost before it is known what is hot.
    before = _warmest(recency, 0, rooms)
    held, touched = before > 0, counts > 0
    # Above all that is held, in the order of counts, then of lower ids; so two slices of a layer are never equal.
    experts = counts.shape[1]
    used_now = before.max() + counts * experts - np.arange(experts)
    after = _warmest(np.where(touched, used_now, before), hotness, rooms)
    reads = Reads(float(touched.sum()), float((touched & held).sum()), float(((after > 0) & ~held).sum()))
    return reads, after


def _warmest(recency: IntArray, hotness: IntArray | int, rooms: IntArray) -> IntArray:
    """`recency` [layers, experts] where only the hottest, then latest, slices of each layer stay: `rooms` of them.

    No two that are held were used at once, so that a threshold tells equally hot ones apart.
    """
    if ((recency > 0).sum(axis=1) <= rooms).all():
        return recency
    experts = recency.shape[1]
    if not isinstance(hotness, int):
        coldest_first = np.lexsort((recency, np.where(recency > 0, hotness, -1)), axis=-1)
        fits = np.arange(experts) >= experts - rooms[:, None]
        kept = np.zeros_like(recency)
        np.put_along_axis(kept, coldest_first, np.take_along_axis(recency, coldest_first, axis=1) * fits, axis=1)
        return kept
    in_order = np.sort(recency, axis=1)
    oldest = np.take_along_axis(in_order, np.minimum(experts - rooms, experts - 1)[:, None], axis=1)
    return np.where((recency >= oldest) & (rooms > 0)[:, None], recency, 0)

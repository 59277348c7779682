"""The experts that self-drafting is confined to, so that a draft reads HB alone (ELMoE-3D, 4.2 and Algorithm 1).

    pool = HotPool(layers=48, experts=128)
    pool.commit(prompt_routes, slices)              # prefill: streams experts by, and fills HB
    for each draft step:
        ids = pool.throttle(scores, top_k=8)        # what the draft computes with
        pool.record(routes)                         # what its router asked for
    pool.commit(verify_routes, slices)              # the pass that verifies brings the next pool in

HB has no link to EXT of its own: a slice comes in only while a pass streams it to the PEs, at no extra time.
"""

import numpy as np

from device_model.experts.residency import BoolArray, Reads, Routes, after_pass, empty, shares, tally
from device_model.step import FloatArray, IntArray

NO_EXPERT = -1
"""Fills up the ids of a token in a layer whose pool has fewer than top-k members."""


class HotPool:
    """Elastic-SD: HB holds what the routers of the last drafts asked for most; fixed while drafting, starting empty.

    Hotness is the sum of one-hot routing over the drafts since the last update (4.2, Expert Throttling), without decay:
    a commit starts it anew, as the paper counts "the current draft phase" only. A commit keeps the hottest of what it
    held or streamed, of equal ones the last used. So without drafts in between it is the LRU cache that the paper
    has for autoregressive decoding (7), and Algorithm 1 can switch between both on one HB.

    Ours, as the paper does not say: layers share HB evenly; if a hot slice is neither held nor streamed, the next in
    hotness takes its place. A controller can do that, as it knows a layer's routes before it fetches its experts.
    """

    def __init__(self, layers: int, experts: int) -> None:
        self._recency = empty(layers, experts)
        self._hotness = empty(layers, experts)

    @property
    def held(self) -> BoolArray:
        """The pool: slices in HB [layers, experts]."""
        return self._recency > 0

    def throttle(self, scores: FloatArray, top_k: int) -> IntArray:
        """Ids [tokens, layers, top_k] that a draft computes with: see `throttled`."""
        return throttled(scores, self.held, top_k)

    def record(self, routes: Routes) -> None:
        """Count the original routing of a draft step, before throttling. ValueError for routes of another model."""
        self._hotness += tally(routes, *self._hotness.shape)

    def probe(self, routes: Routes, slices: int) -> Reads:
        """What verifying with `routes`, unconfined, would read. ValueError for other shapes, ids, negative slices."""
        return self._after(routes, slices)[0]

    def commit(self, routes: Routes, slices: int) -> Reads:
        """Verify: count hits on the pool of the draft, then let the next pool in, and forget the hotness.

        If `slices` shrank since the draft, the coldest members go first. ValueError as `probe`.
        """
        reads, self._recency = self._after(routes, slices)
        self._hotness = np.zeros_like(self._hotness)
        return reads

    def _after(self, routes: Routes, slices: int) -> tuple[Reads, IntArray]:
        layers, experts = self._recency.shape
        return after_pass(self._recency, tally(routes, layers, experts), shares(slices, layers), self._hotness)


class RandomPool:
    """Random-SD, which the paper compares Elastic-SD with (7.3 B): members drawn once, whatever the routers ask for.

    `slices` of them lie in HB before serving begins. When room shrinks the last drawn go; when it grows they come
    back as passes stream them.
    """

    def __init__(self, layers: int, experts: int, slices: int, draw: np.random.Generator) -> None:
        order = draw.permuted(np.broadcast_to(np.arange(experts), empty(layers, experts).shape), axis=1)
        self._drawn = np.argsort(order, axis=1)
        self._held = self._members(slices)

    @property
    def held(self) -> BoolArray:
        """The pool: slices in HB [layers, experts]."""
        return self._held.copy()

    def throttle(self, scores: FloatArray, top_k: int) -> IntArray:
        """Ids [tokens, layers, top_k] that a draft computes with: see `throttled`."""
        return throttled(scores, self._held, top_k)

    def record(self, routes: Routes) -> None:
        """Nothing: hotness is what this pool does without."""

    def probe(self, routes: Routes, slices: int) -> Reads:
        """What verifying with `routes`, unconfined, would read. ValueError for other shapes, ids, negative slices."""
        return self._after(routes, slices)[0]

    def commit(self, routes: Routes, slices: int) -> Reads:
        """Verify, and fit the pool into `slices`. ValueError as `probe`."""
        reads, self._held = self._after(routes, slices)
        return reads

    def _after(self, routes: Routes, slices: int) -> tuple[Reads, BoolArray]:
        touched = tally(routes, *self._drawn.shape) > 0
        members = self._members(slices)
        before, after = self._held & members, (self._held | touched) & members
        return Reads(float(touched.sum()), float((touched & before).sum()), float((after & ~before).sum())), after

    def _members(self, slices: int) -> BoolArray:
        return self._drawn < shares(slices, len(self._drawn))[:, None]


def throttled(scores: FloatArray, members: BoolArray, top_k: int) -> IntArray:
    """The `top_k` experts of highest score among the `members` [layers, experts], as ids [tokens, layers, top_k].

    `scores` [tokens, layers, experts] are the router's, and their order is kept, lower ids first of equal scores
    (4.2; Algorithm 1, line 10). A layer with fewer members gives all of them, then NO_EXPERT. ValueError for
    another shape, a score that is not finite, or a top_k that the model cannot have.
    """
    if scores.ndim != 3 or scores.shape[1:] != members.shape:
        raise ValueError(f"Scores are [tokens, {members.shape[0]}, {members.shape[1]}], not {scores.shape}.")
    if not np.isfinite(scores).all():
        raise ValueError("A router score is NaN or infinite.")
    if not 1 <= top_k <= members.shape[1]:
        raise ValueError(f"A token chooses 1 to {members.shape[1]} experts, not {top_k}.")
    left = np.where(members, scores, -np.inf)
    ids = np.empty((*scores.shape[:2], top_k), dtype=np.int64)
    # top_k is small, so looking for the best that often is faster than sorting all experts.
    for place in range(top_k):
        best = left.argmax(axis=-1, keepdims=True)
        found = np.take_along_axis(left, best, axis=-1) > -np.inf
        ids[..., place : place + 1] = np.where(found, best, NO_EXPERT)
        np.put_along_axis(left, best, -np.inf, axis=-1)
    return ids

"""Experts placed by topic: HB holds those that a mix of topics uses most, and keeps them until another mix is placed.

    hot = HotExperts(usage, Routers(layers=48, experts=128, top_k=8))
    hot.held(mix, slices=1300)                      # what HB holds
    hot.probe(ask, touched=2000.0)                  # what a pass finds there
    hot.brought_in(mix, another, slices=1300)       # what a switch streams in

Stratum ranks experts by their usage under the topics of a batch and gives the fast tier to the hottest (arXiv
2510.05245, 3.1 and 5.2, Algorithm 1). Here the fast tier is HB, and each layer has an even part of it, as its caches
have (`residency`). Nothing is written by a pass: a switch is charged when it happens (Stratum, Table 4).

How many experts a pass touches is what the calibrated law says (`experts`). Which share of them is held follows from
usage: token after token misses expert e with 1 - c_e, c_e its topic's chance, so that P_e = 1 - prod (1 - c_e) is the
chance that the pass reads e, and the sum of P over the held ones that share. As in the law, the sequences of a batch
and the drafts of a sequence count as fewer independent tokens than they are. For experts used evenly the sum of P over
all is then exactly what the law says is touched.
"""

from typing import NamedTuple

import numpy as np

from device_model.arrays import Number, least
from device_model.experts.fidelity import CacheAsk
from device_model.experts.residency import BoolArray, Reads, shares, tally
from device_model.experts.route_map import Routers
from device_model.experts.topic_usage import UNKNOWN, TopicUsage
from device_model.step import FloatArray, IntArray, StepPlan

Mix = tuple[float, ...]
"""The weight of each topic of a usage table."""
# Mixes that are remembered, at some 100 kB each.
KNOWN = 64
# A chance of 1 would make the logarithm of missing infinite.
ALMOST = 1.0 - 1e-12


class _Ranked(NamedTuple):
    """The experts of a mix: `rank` [layers, experts], 0 the most used; and their kinds [experts x layers] in the order
    in which HB takes them in: the first of every layer, then the second of every layer."""

    rank: IntArray
    kinds: IntArray


class HotExperts:
    """The experts of one model by topic. It has no state but what it remembers of its answers."""

    def __init__(self, usage: TopicUsage, routers: Routers) -> None:
        self.usage = usage
        self.routers = routers
        self._chances = usage.chances(routers)
        everyone = np.concatenate([self._chances, self._chances.mean(axis=0, keepdims=True)])
        misses = np.log1p(-np.minimum(everyone, ALMOST)).reshape(len(everyone), -1)
        # Where many experts stand for one of a smaller model, they are alike: powers are taken once for each kind.
        self._misses, kinds, self._many = np.unique(misses, axis=1, return_inverse=True, return_counts=True)
        self._kinds = kinds.reshape(routers.layers, routers.experts)
        self._known: dict[Mix, _Ranked] = {}

    def held(self, mix: Mix, slices: int) -> BoolArray:
        """Return what HB holds [layers, experts] with room for so many slices. Raise ValueError for a mix that means
        nothing."""
        held: BoolArray = self._ranked(mix).rank < shares(slices, self.routers.layers)[:, None]
        return held

    def brought_in(self, before: Mix | None, after: Mix, slices: int) -> int:
        """How many slices a switch streams in: held under `after`, and not under `before` (None: nothing of it is)."""
        held = self.held(after, slices)
        return int((held if before is None else held & ~self.held(before, slices)).sum())

    def tokens(self, plan: StepPlan, each: float) -> FloatArray:
        """As how many independent tokens a pass of `plan` chooses, by topic [topics + 1], UNKNOWN last: `each` for a
        sequence that decodes, every token of a prompt. ValueError for topics that the table does not have."""
        count = len(self.usage.topics)
        topics = np.full(len(plan.new_tokens), UNKNOWN) if plan.topics is None else plan.topics
        if len(topics) != len(plan.new_tokens) or topics.min() < UNKNOWN or topics.max() >= count:
            allowed = f"allowed is one for each sequence, {UNKNOWN} to {count - 1}"
            raise ValueError(f"topics are {topics.tolist()} of {len(plan.new_tokens)} sequences; {allowed}")
        weights = np.where(plan.decodes, each, plan.new_tokens)
        # The index -1 of Python is the last one, and so it is here.
        return np.bincount(topics % (count + 1), weights, minlength=count + 1).astype(np.float64, copy=False)

    def probe(self, ask: CacheAsk, touched: float) -> Reads:
        """Return what a pass finds of the slices it touches: of its routes, or without any of `touched`, as
        expected."""
        assert ask.placed is not None
        if ask.routes is not None:
            read = tally(ask.routes, *self.routers[:2]) > 0
            return Reads(float(read.sum()), float((read & self.held(ask.placed.mix, int(ask.slices))).sum()), 0.0)
        read = -np.expm1(ask.placed.tokens @ self._misses)  # the chance of each kind
        found = _sum_of_first(read, self._ranked(ask.placed.mix).kinds, ask.slices)
        hits = least(touched * least(found / float(read @ self._many), 1.0), ask.slices)
        return Reads(touched, hits, 0.0)  # type: ignore[arg-type]  # numbers or arrays

    def _ranked(self, mix: Mix) -> _Ranked:
        known = self._known.get(mix)
        if known is None:
            if len(self._known) >= KNOWN:
                self._known.clear()
            known = self._known[mix] = self._rank(mix)
        return known

    def _rank(self, mix: Mix) -> _Ranked:
        weights = np.array(mix, dtype=np.float64)
        if weights.shape != (len(self.usage.topics),) or not ((weights >= 0).all() and 0 < weights.sum() < np.inf):
            allowed = f"{len(self.usage.topics)} weights of 0 or more, not all 0: of {', '.join(self.usage.topics)}"
            raise ValueError(f"The plan's experts are placed for {mix}; allowed are {allowed}")
        # Lower ids first of equally used ones.
        order = np.argsort(-np.tensordot(weights, self._chances, axes=1), axis=1, kind="stable")
        return _Ranked(np.argsort(order, axis=1), np.take_along_axis(self._kinds, order, axis=1).T.ravel())


def _sum_of_first(read: FloatArray, kinds: IntArray, slices: Number) -> Number:
    """Return the sum of the chances `read`, by kind, over the first `slices`; one that fits in part is not held."""
    if isinstance(slices, np.ndarray):
        summed = np.concatenate([[0.0], np.cumsum(read[kinds])])
        of_each: FloatArray = summed[np.minimum(slices, len(kinds)).astype(np.int64)]
        return of_each
    return float(np.add.reduce(read[kinds[: int(slices)]]))

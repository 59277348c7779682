"""A real cache of experts in HB: of whole ones, of a draft's own copies, or a pool of slices that drafts are made with.

    cache = TracedCache(Lru(layers=48, experts=128))
    cache.probe(ask)            # what a pass would find
    cache.confined(ask)         # what a draft's passes read of the pool that HB holds
    cache.commit(ask)           # the pass is carried out, and HB holds what it leaves there

Elastic-SD confines drafts to the experts whose slices HB holds: over batch, width and depth, with one pool for a whole
draft (ELMoE-3D, 4.2, Expert Throttling). Hotness is the sum of the one-hot routing that the draft's routers wanted, of
this draft alone ("from the current draft phase"). While drafts are verified experts stream by, and of what is there or
streams by the hottest stays: a slice of one expert of one layer, spread over all banks (5.1), is there as a whole or
not at all. What is hot but neither there nor read can't come, for HB has no link to EXT of its own, and the next in
hotness keeps its place (ours: the paper does not say). Random-SD's pool has a fixed order, drawn once, for hotness.

HB is one: a whole expert has its slice in it, so that drafts begin with what plain decoding left. Slices don't serve
plain decoding, and copies that were quantised by themselves serve nobody else: what follows upon them begins cold.
"""

from typing import NamedTuple

import numpy as np

from device_model.experts.fidelity import CacheAsk, HeldAs
from device_model.experts.residency import BoolArray, Lru, Reads, tally
from device_model.step import NO_EXPERT, DraftRoutes, IntArray


class PoolReads(NamedTuple):
    """What drafts get of their pool, as shares: `members` of all experts; `read` of all experts by a pass, on average;
    `computed` of the top-k experts of a token. Of the choices of the draft's routers it has `covered`, and the hottest
    pool of its size would have `coverable`."""

    members: float
    read: float
    computed: float
    covered: float
    coverable: float

    @property
    def hotness(self) -> float:
        """How hot the pool is: 1 the hottest of its size, 0 no hotter than chance."""
        above = self.coverable - self.members
        return min(1.0, max(0.0, (self.covered - self.members) / above)) if above > 0 else 1.0


class TracedCache:
    """A real cache. ValueError for a pass without routes, or with those of another model."""

    def __init__(self, lru: Lru, drawn: IntArray | None = None) -> None:
        """With `drawn` [layers, experts], which `drawn_order` makes, pools are as random as that."""
        self._lru, self._drawn = lru, drawn
        self._held_as = HeldAs.WHOLE
        self._hot: tuple[DraftRoutes, IntArray] | None = None

    def probe(self, ask: CacheAsk) -> Reads:
        """Return what a pass would read, find and bring in."""
        return self._for(ask).probe(_routes(ask), int(ask.slices), self._hotness(ask))

    def commit(self, ask: CacheAsk) -> Reads:
        """Return what a pass reads, finds and brings in, and carry it out."""
        self._lru, self._held_as = self._for(ask), ask.held_as
        return self._lru.commit(_routes(ask), int(ask.slices), self._hotness(ask))

    def pool(self, ask: CacheAsk) -> BoolArray:
        """Return the pool [layers, experts] that a draft would have now."""
        return self._for(ask).latest(int(ask.slices)) > 0

    def confined(self, ask: CacheAsk) -> PoolReads:
        """Return what a draft's passes read of the pool. ValueError without its routes."""
        recency = self._for(ask).latest(int(ask.slices))
        held, (layers, experts) = recency > 0, recency.shape
        wanted = tally(_drafts(ask).all_wanted, layers, experts)
        top_k, members = _drafts(ask).wanted[0].shape[-1], held.sum(axis=1)
        best = -np.sort(-wanted, axis=1)[np.arange(experts) < members[:, None]].sum()
        return PoolReads(
            members=float(held.mean()),
            read=float(np.mean([_read(each, recency) for each in _passes(_drafts(ask))])) / (layers * experts),
            computed=float(np.minimum(members, top_k).mean()) / top_k,
            covered=float(wanted[held].sum() / wanted.sum()),
            coverable=float(best / wanted.sum()),
        )

    def probe_passes(self, ask: CacheAsk) -> Reads:
        """Return what each pass of a draft reads, finds and brings in on average, if its own experts are cached. Raise
        ValueError without its routes."""
        return self._after_passes(ask)[0]

    def commit_passes(self, ask: CacheAsk) -> None:
        """Carry the passes of a draft out."""
        self._lru, self._held_as = self._after_passes(ask)[1], ask.held_as

    def _after_passes(self, ask: CacheAsk) -> tuple[Reads, Lru]:
        cache = self._for(ask).copy()
        found = [cache.commit(wanted, int(ask.slices)) for wanted in _drafts(ask).wanted]
        return Reads(*np.mean(found, axis=0).tolist()), cache

    def _for(self, ask: CacheAsk) -> Lru:
        """Return the cache with what serves an `ask` of that which lies there."""
        if ask.held_as is self._held_as or (ask.held_as is HeldAs.SLICES and self._held_as is HeldAs.WHOLE):
            return self._lru
        return Lru(*self._lru.shape)

    def _hotness(self, ask: CacheAsk) -> IntArray | int:
        if ask.drafts is None or ask.held_as is HeldAs.COPIES:
            return 0
        if self._drawn is not None:
            return self._drawn
        if self._hot is None or self._hot[0] is not ask.drafts:
            self._hot = ask.drafts, tally(ask.drafts.all_wanted, *self._lru.shape)
        return self._hot[1]


def drawn_order(layers: int, experts: int, draw: np.random.Generator) -> IntArray:
    """Return an order of experts [layers, experts] for a random pool, 1 to `experts` in each layer: the largest are
    members first."""
    ranks = np.tile(np.arange(1, experts + 1, dtype=np.int64), (layers, 1))
    return draw.permuted(ranks, axis=1)


def _passes(drafts: DraftRoutes) -> "list[tuple[IntArray, bool]]":
    """Return the routes of each pass, and whether they are confined already."""
    if drafts.confined is not None:
        return [(each, True) for each in drafts.confined]
    return [(each, False) for each in drafts.wanted]


def _read(of_pass: tuple[IntArray, bool], recency: IntArray) -> int:
    """Count the slices that a draft's pass reads of a pool, which `recency` [layers, experts] has the order of.

    Where only what routers wanted is known, a token goes to those of its experts that are in the pool, and for each
    other one to one of the pool's latest: what the router has next is not among its choices.
    """
    (routes, confined), (layers, experts) = of_pass, recency.shape
    if confined:
        layer = np.broadcast_to(np.arange(layers)[:, None], routes.shape)[routes != NO_EXPERT]
        chosen = np.zeros(recency.shape, dtype=bool)
        chosen[layer, routes[routes != NO_EXPERT]] = True
        return int((chosen & (recency > 0)).sum())
    kept = recency[np.arange(layers)[:, None], routes] > 0
    most_lacking = routes.shape[-1] - kept.sum(axis=-1).min(axis=0, initial=routes.shape[-1])
    latest = np.argsort(np.argsort(-recency, axis=1, kind="stable"), axis=1) < most_lacking[:, None]
    return int((((tally(routes, layers, experts) > 0) | latest) & (recency > 0)).sum())


def _routes(ask: CacheAsk) -> IntArray:
    if ask.routes is None:
        raise ValueError("The plan has no routes; a cache at trace fidelity needs the expert ids of every pass")
    return ask.routes


def _drafts(ask: CacheAsk) -> DraftRoutes:
    if ask.drafts is None:
        raise ValueError("The plan has no routes of its draft; a draft at trace fidelity needs those of every pass")
    return ask.drafts

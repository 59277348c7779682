"""Does HB, traced, hold and serve what is hot, and never more than it has room for?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.fidelity import CacheAsk, HeldAs
from device_model.experts.locality_laws import PassTokens
from device_model.experts.residency import Lru
from device_model.experts.traced_cache import TracedCache, drawn_order
from device_model.step import NO_EXPERT, DraftRoutes
from tests.device_model.synthetic_routes import synthetic_routes, zipf_popularity

LAYERS, EXPERTS, TOP_K = 3, 16, 4
TOKENS = PassTokens(2, 4)


def routes(tokens: int, seed: int, exponent: float = 0.8) -> np.ndarray:
    popularity = zipf_popularity(LAYERS, EXPERTS, exponent, np.random.default_rng(0))
    return synthetic_routes(popularity, tokens, TOP_K, 0.4, np.random.default_rng(seed))


def drafts(passes: int, tokens: int, seed: int, exponent: float = 0.8) -> DraftRoutes:
    return DraftRoutes(tuple(np.split(routes(passes * tokens, seed, exponent), passes)))


def asked(slices: float, seed: int, held_as: HeldAs = HeldAs.SLICES, **kwargs) -> CacheAsk:
    return CacheAsk(TOKENS, slices, held_as, routes(8, seed), drafts(3, 2, seed + 1), **kwargs)


def caches(random: bool = False) -> TracedCache:
    drawn = drawn_order(LAYERS, EXPERTS, np.random.default_rng(1)) if random else None
    return TracedCache(Lru(LAYERS, EXPERTS), drawn)


@given(
    st.booleans(),
    st.lists(st.tuples(st.floats(0, 60), st.sampled_from(HeldAs), st.integers(0, 999)), min_size=1, max_size=8),
)
def test_hb_never_serves_or_holds_more_than_it_has_room_for_whatever_it_holds(random, steps):
    cache = caches(random)
    for slices, held_as, seed in steps:
        ask = asked(slices, seed, held_as)
        before = cache.pool(ask)
        pool, reads = cache.confined(ask), cache.probe(ask)
        assert before.sum() <= slices
        assert reads.hits <= min(before.sum(), reads.touched) and reads.written <= slices
        assert pool.members == pytest.approx(before.mean())
        assert 0 <= pool.read <= pool.members + 1e-12 and 0 <= pool.computed <= 1
        assert 0 <= pool.covered <= pool.coverable <= 1 and 0 <= pool.hotness <= 1
        assert cache.commit(ask) == reads
        after = cache.pool(ask)
        touched = np.zeros_like(after)
        touched[np.arange(LAYERS)[:, None], ask.routes] = True
        assert not (after & ~before & ~touched).any(), "what was not read did not come by"
        assert after.sum() <= slices and (after & ~before).sum() == reads.written


def test_the_pool_has_what_the_drafts_wanted_most_of_what_came_by():
    cache, ask = caches(), asked(LAYERS * 5, 3)
    cache.commit(ask)
    wanted = np.zeros((LAYERS, EXPERTS), dtype=int)
    np.add.at(wanted, (np.arange(LAYERS)[:, None], ask.drafts.all_wanted), 1)
    read = np.zeros((LAYERS, EXPERTS), dtype=bool)
    read[np.arange(LAYERS)[:, None], ask.routes] = True
    held = cache.pool(ask)
    for layer in range(LAYERS):
        left = read[layer] & ~held[layer]
        assert held[layer].sum() == min(5, read[layer].sum())
        assert not left.any() or wanted[layer][held[layer]].min() >= wanted[layer][left].max()


def test_a_hot_pool_has_more_of_the_next_drafts_choices_than_a_random_one():
    covered = {}
    for random in (False, True):
        cache, found = caches(random), []
        for seed in range(40):
            ask = CacheAsk(TOKENS, LAYERS * 6, HeldAs.SLICES, routes(8, seed, 1.2), drafts(3, 2, seed + 1, 1.2))
            found.append(cache.confined(ask))
            cache.commit(ask)
        covered[random] = np.mean([pool.covered for pool in found[5:]])
        assert {pool.members for pool in found[15:]} == {6 / EXPERTS}
    assert covered[False] > 1.2 * covered[True]
    assert covered[True] == pytest.approx(6 / EXPERTS, abs=0.15)


def test_a_random_pool_stays_as_it_was_drawn():
    cache = caches(random=True)
    drawn = drawn_order(LAYERS, EXPERTS, np.random.default_rng(1)) > EXPERTS - 6
    for seed in range(60):
        cache.commit(asked(LAYERS * 6, seed))
    assert (cache.pool(asked(LAYERS * 6, 0)) == drawn).all()


def test_slices_are_found_in_whole_experts_but_not_whole_experts_in_slices_nor_copies_in_either():
    whole, slices, copies = (asked(LAYERS * 8, 5, held_as) for held_as in HeldAs)
    cache = caches()
    cache.commit(whole)
    assert cache.probe(slices).hits > 0 and cache.probe(copies).hits == 0
    cache.commit(slices)
    assert cache.probe(slices).hits > 0 and cache.probe(whole).hits == cache.probe(copies).hits == 0


def test_what_was_confined_is_counted_as_it_was_and_nothing_outside_the_pool():
    cache, ask = caches(), asked(LAYERS * 4, 7)
    cache.commit(ask)
    held = cache.pool(ask)
    one = np.full((1, LAYERS, TOP_K), NO_EXPERT)
    for layer in range(LAYERS):
        one[0, layer, 0] = np.flatnonzero(held[layer])[0]
        one[0, layer, 1] = np.flatnonzero(~held[layer])[0]
    confined = DraftRoutes((ask.drafts.wanted[0][:1],), (one,))
    assert cache.confined(ask._replace(drafts=confined)).read == pytest.approx(LAYERS / (LAYERS * EXPERTS))


def test_passes_of_a_draft_warm_its_copies():
    cache, ask = caches(), asked(LAYERS * 12, 9, HeldAs.COPIES)
    cold = cache.probe_passes(ask)
    cache.commit_passes(ask)
    assert cache.probe_passes(ask).hits > cold.hits > 0


def test_drafts_without_routes_are_told_of():
    with pytest.raises(ValueError, match="no routes of its draft"):
        caches().confined(asked(8, 1)._replace(drafts=None))


@pytest.mark.parametrize(
    ("wanted", "read"),
    [
        # The pool has 0, 1, 2 and 3, of which 3 is its latest, then 2.
        ([[0, 1]], 2),  # both are there
        ([[0, 9]], 2),  # the latest stands in for 9
        ([[8, 9]], 2),  # the two latest
        ([[3, 9]], 1),  # the latest is read already
        ([[0, 9], [1, 9]], 3),  # each token's substitute is the same
        ([[0, 1], [8, 9]], 4),
    ],
)
def test_a_token_that_is_not_confined_reads_of_the_pool_what_it_wants_and_for_the_rest_its_latest(
    wanted: list[list[int]], read: int
) -> None:
    cache = TracedCache(Lru(1, 16))
    filled = CacheAsk(TOKENS, 4.0, HeldAs.SLICES, np.array([[[each]] for each in range(4)]))
    for each in range(4):
        cache.commit(filled._replace(routes=np.array([[[each]]])))
    drafts = DraftRoutes((np.array(wanted)[:, None, :],))
    pool = cache.confined(filled._replace(routes=np.array([[[0]]]), drafts=drafts))
    assert (pool.members * 16, pool.read * 16) == (4, read)

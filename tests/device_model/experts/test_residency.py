"""Does the emulated expert cache hold what a real one would, and only what could have reached it?"""

from collections import Counter, OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.residency import Lru, Reads, shares


class Trace(NamedTuple):
    layers: int
    experts: int
    passes: list  # of (routes [tokens, layers, top_k], slices)

    @property
    def all_slices(self):
        return self.layers * self.experts

    def cache(self):
        return Lru(self.layers, self.experts)


def drawn_routes(draw, tokens, layers, experts, top_k):
    return draw.random((tokens, layers, experts)).argsort(axis=-1)[..., :top_k]


@st.composite
def traces(draw):
    layers, experts, seed = draw(st.integers(1, 3)), draw(st.integers(1, 8)), draw(st.integers(0, 2**32))
    top_k = draw(st.integers(1, experts))
    steps = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, layers * experts + 2)), min_size=1, max_size=12))
    numbers = np.random.default_rng(seed)
    passes = [(drawn_routes(numbers, tokens, layers, experts, top_k), slices) for tokens, slices in steps]
    return Trace(layers, experts, passes)


def touched(routes, layers, experts):
    chosen = np.zeros((layers, experts), dtype=bool)
    for token in routes:
        chosen[np.arange(layers)[:, None], token] = True
    return chosen


class SimpleLru:
    """Reference: one ordinary LRU, fed one expert after the other, the most wanted last."""

    def __init__(self):
        self.held = OrderedDict()

    def shrink(self, room):
        while len(self.held) > room:
            self.held.popitem(last=False)

    def read(self, chosen, room):
        self.shrink(room)
        before, counts = set(self.held), Counter(chosen)
        for expert in sorted(counts, key=lambda e: (counts[e], -e)):
            self.held[expert] = True
            self.held.move_to_end(expert)
            self.shrink(room)
        return Reads(len(counts), len(before & set(counts)), len(set(self.held) - before))


@given(traces())
def test_the_lru_does_what_a_simple_one_does(trace):
    cache, reference = Lru(trace.layers, trace.experts), [SimpleLru() for _ in range(trace.layers)]
    for routes, slices in trace.passes:
        rooms = shares(slices, trace.layers)
        each = [lru.read(routes[:, layer].ravel().tolist(), rooms[layer]) for layer, lru in enumerate(reference)]
        assert cache.commit(routes, slices) == tuple(map(sum, zip(*each, strict=True)))
        for held, lru in zip(cache.held, reference, strict=True):
            assert set(np.flatnonzero(held).tolist()) == set(lru.held)


@given(traces())
def test_reads_keep_within_the_model_and_the_room_and_nothing_comes_in_unread(trace):
    cache = trace.cache()
    for routes, slices in trace.passes:
        before, read = cache.held, touched(routes, trace.layers, trace.experts)
        reads = cache.commit(routes, slices)
        after = cache.held
        assert reads.hits <= reads.touched == read.sum() <= trace.all_slices
        assert reads.hits <= min(slices, (read & before).sum())
        assert after.sum() <= slices
        assert (after.sum(axis=1) <= shares(slices, trace.layers)).all()
        assert not (after & ~(before | read)).any()
        assert (after & ~before).sum() <= reads.written <= (after & read).sum()


@given(traces())
def test_a_probe_changes_nothing_and_says_what_the_commit_will(trace):
    cache = trace.cache()
    for routes, slices in trace.passes:
        before = cache.held
        for other_routes, other_slices in trace.passes:
            cache.probe(other_routes, other_slices)
        probed = cache.probe(routes, slices)
        assert (cache.held == before).all()
        assert cache.commit(routes, slices) == probed


@given(traces())
def test_with_room_for_all_only_the_first_touch_misses(trace):
    cache = trace.cache()
    seen = np.zeros((trace.layers, trace.experts), dtype=bool)
    for routes, _ in trace.passes:
        read = touched(routes, trace.layers, trace.experts)
        reads = cache.commit(routes, trace.all_slices)
        assert reads[:3] == (read.sum(), (read & seen).sum(), (read & ~seen).sum())
        seen |= read


@given(traces(), st.integers(0, 5))
def test_a_larger_lru_holds_all_that_a_smaller_one_does(trace, more):
    small, large = Lru(trace.layers, trace.experts), Lru(trace.layers, trace.experts)
    for routes, slices in trace.passes:
        assert small.commit(routes, slices).hits <= large.commit(routes, slices + more).hits
        assert not (small.held & ~large.held).any()


def one_layer(*tokens):
    return np.array(tokens, dtype=np.int64)[:, None, :]


def members(cache):
    return np.flatnonzero(cache.held[0]).tolist()


def test_a_shrinking_lru_evicts_the_coldest_and_what_is_gone_stays_gone():
    cache = Lru(1, 8)
    for expert in (5, 2, 7, 2):
        cache.commit(one_layer([expert]), 3)
    assert members(cache) == [2, 5, 7]
    nobody = np.empty((0, 1, 1), dtype=np.int64)
    assert cache.commit(nobody, 2)[:3] == (0, 0, 0)
    assert members(cache) == [2, 7]
    cache.commit(nobody, 1)
    assert members(cache) == [2]
    assert cache.probe(one_layer([5], [7], [2]), 8).hits == 1


def test_within_a_pass_the_most_wanted_stays_longest_then_the_lower_id():
    routes = one_layer([0, 3], [3, 1], [1, 2])  # chosen once: 0 and 2; twice: 1 and 3
    for slices, left in ((4, [0, 1, 2, 3]), (3, [0, 1, 3]), (2, [1, 3]), (1, [1])):
        cache = Lru(1, 4)
        assert cache.commit(routes, slices)[:3] == (4, 0, slices)
        assert members(cache) == left


def test_layers_share_evenly_and_the_first_get_the_remainder():
    assert shares(11, 4).tolist() == [3, 3, 3, 2]
    assert shares(0, 4).tolist() == [0, 0, 0, 0]


def test_experts_read_again_in_the_same_turn_are_found_although_not_all_fit():
    routes = np.broadcast_to(np.arange(4), (1, 6, 4))
    cache = Lru(6, 16)
    assert cache.commit(routes, slices=18)[:3] == (24, 0, 18)
    assert cache.commit(routes, slices=18)[:3] == (24, 18, 0)


@pytest.mark.parametrize(
    ("routes", "slices", "said"),
    [
        (np.array([[[0, 4]]]), 4, "from 0 to 3"),
        (np.array([[[-1, 2]]]), 4, "from 0 to 3"),
        (np.array([[[1, 1]]]), 4, "twice"),
        (np.array([[[3, 1, 3]]]), 4, "twice"),
        (np.array([[0, 1]]), 4, "tokens, 1, top_k"),
        (np.array([[[0], [1]]]), 4, "tokens, 1, top_k"),
        (np.array([[[0.0, 1.0]]]), 4, "whole numbers"),
        (np.array([[[0, 1]]]), -1, "not -1"),
    ],
)
def test_what_means_nothing_is_refused(routes, slices, said):
    cache = Lru(1, 4)
    cache.commit(one_layer([0, 2]), 2)
    before = cache.held
    with pytest.raises(ValueError, match=said):
        cache.probe(routes, slices)
    with pytest.raises(ValueError, match=said):
        cache.commit(routes, slices)
    assert (cache.held == before).all()


def test_a_model_has_layers_and_experts():
    with pytest.raises(ValueError, match="at least one"):
        Lru(0, 4)
    with pytest.raises(ValueError, match="at least one"):
        Lru(4, 0)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64])
def test_ids_of_any_whole_type_count_alike(kind):
    routes = drawn_routes(np.random.default_rng(1), 5, 48, 128, 8)
    ours, theirs = Lru(48, 128), Lru(48, 128)
    assert ours.commit(routes, 1000) == theirs.commit(routes.astype(kind), 1000)
    assert (ours.held == theirs.held).all()

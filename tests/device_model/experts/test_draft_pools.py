"""Does a draft keep to what HB holds, and does HB come to hold what drafts ask for?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.draft_pools import NO_EXPERT, HotPool, RandomPool, throttled
from device_model.experts.synthetic_routes import synthetic_routes, zipf_popularity


def one_layer(*tokens):
    return np.array(tokens, dtype=np.int64)[:, None, :]


def members(residency):
    return np.flatnonzero(residency.held[0]).tolist()


def test_a_hot_pool_takes_the_hottest_of_what_streams_by():
    pool = HotPool(1, 8)
    pool.commit(one_layer([0, 1], [1, 2]), 3)
    assert members(pool) == [0, 1, 2]
    # Drafts ask for 6 most, then 5, 2 and 4; but 6 is neither held nor read by the verify pass.
    pool.record(one_layer([6, 5], [6, 5], [6, 2], [2, 4]))
    pool.record(one_layer([6, 5]))
    assert members(pool) == [0, 1, 2]
    assert pool.commit(one_layer([5, 1], [4, 7]), 3) == (4, 1, 2)
    assert members(pool) == [2, 4, 5]
    # The hotness is spent: 4 and 5 are no hotter now than what is read next.
    pool.commit(one_layer([0, 3]), 3)
    assert members(pool) == [0, 3, 4]


def test_a_shrinking_hot_pool_evicts_what_the_drafts_asked_for_least():
    pool = HotPool(1, 8)
    pool.commit(one_layer([0, 1], [2, 3]), 4)
    pool.record(one_layer([3, 2], [3, 2], [3, 0]))
    nobody = np.empty((0, 1, 1), dtype=np.int64)
    assert pool.commit(nobody, 2) == (0, 0, 0)
    assert members(pool) == [2, 3]


def test_a_random_pool_gives_up_its_last_drawn_and_takes_them_back_as_they_stream_by():
    pool = RandomPool(2, 8, 8, np.random.default_rng(3))
    first, everything = pool.held, np.broadcast_to(np.arange(8), (1, 2, 8))
    assert first.sum(axis=1).tolist() == [4, 4]
    assert pool.commit(everything, 4) == (16, 4, 0)
    assert pool.held.sum(axis=1).tolist() == [2, 2]
    assert pool.commit(np.empty((0, 2, 1), dtype=np.int64), 8) == (0, 0, 0)
    assert pool.held.sum() == 4
    assert pool.commit(everything, 8) == (16, 4, 4)
    assert (pool.held == first).all()
    assert (RandomPool(2, 8, 8, np.random.default_rng(3)).held == first).all()


@given(st.integers(0, 2**32), st.integers(0, 4), st.integers(1, 3), st.integers(1, 10), st.data())
def test_throttling_keeps_to_the_pool_and_to_the_order_of_scores(seed, tokens, layers, experts, data):
    top_k = data.draw(st.integers(1, experts))
    draw = np.random.default_rng(seed)
    scores = draw.integers(0, 6, (tokens, layers, experts)).astype(float)  # few values, so many are equal
    pool = draw.random((layers, experts)) < draw.random()
    kept = scores.copy()
    ids = throttled(scores, pool, top_k)
    assert (scores == kept).all()
    for token in range(tokens):
        for layer in range(layers):
            ranked = sorted(range(experts), key=lambda e: (-scores[token, layer, e], e))
            allowed = [expert for expert in ranked if pool[layer, expert]][:top_k]
            assert ids[token, layer].tolist() == allowed + [NO_EXPERT] * (top_k - len(allowed))


def popular_requests(requests, tokens, draw):
    popularity = zipf_popularity(6, 64, 0.9, draw)
    traces = [synthetic_routes(popularity, tokens, 4, repeat=0.5, draw=draw) for _ in range(requests)]
    return np.stack(traces)  # [requests, tokens, layers, top_k]


def hit_rate(pool, traces, slices, drafts=4):
    """Of drafts that guess right and the passes that verify them, as in 4.2."""
    read, hits = 0.0, 0.0
    for start in range(0, traces.shape[1] - drafts, drafts):
        for step in range(start, start + drafts):
            pool.record(traces[:, step])
        verified = traces[:, start : start + drafts + 1].reshape(-1, *traces.shape[2:])
        reads = pool.commit(verified, slices)
        read, hits = read + reads.touched, hits + reads.hits
    return hits / read


@pytest.mark.parametrize("requests", [1, 4])
def test_on_a_skewed_trace_a_hot_pool_beats_a_random_one(requests):
    draw = np.random.default_rng(11)
    traces, slices = popular_requests(requests, 161, draw), 6 * 16
    hot = hit_rate(HotPool(6, 64), traces, slices)
    at_random = hit_rate(RandomPool(6, 64, slices, draw), traces, slices)
    assert at_random == pytest.approx(16 / 64, abs=0.07)
    assert hot > 1.3 * at_random


def test_a_draft_confined_to_a_hot_pool_finds_more_of_its_first_choices_than_in_a_random_one():
    draw = np.random.default_rng(5)
    traces, slices = popular_requests(1, 81, draw), 6 * 16
    pools = HotPool(6, 64), RandomPool(6, 64, slices, draw)
    shares_found = []
    for pool in pools:
        hit_rate(pool, traces[:, :41], slices)
        shares_found.append(pool.held[np.arange(6)[:, None], traces[0, 41:45]].mean())
    assert shares_found[0] > 1.5 * shares_found[1]


@pytest.mark.parametrize(
    ("scores", "top_k", "said"),
    [
        (np.zeros((2, 4)), 2, "tokens, 1, 4"),
        (np.zeros((2, 1, 5)), 2, "tokens, 1, 4"),
        (np.full((2, 1, 4), np.nan), 2, "NaN"),
        (np.zeros((2, 1, 4)), 0, "1 to 4"),
        (np.zeros((2, 1, 4)), 5, "1 to 4"),
    ],
)
def test_scores_that_mean_nothing_are_refused(scores, top_k, said):
    with pytest.raises(ValueError, match=said):
        HotPool(1, 4).throttle(scores, top_k)

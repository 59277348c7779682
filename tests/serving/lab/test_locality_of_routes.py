"""Does what is measured of locality come out as it was put into the routes?"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.locality_laws import PassTokens
from device_model.experts.residency import Lru
from device_model.experts.route_map import Routers
from device_model.load import load_setup
from device_model.specs.calibrated import Locality
from serving.lab.locality_of_routes import fit, in_lanes, law, lru_hit_rate, runs, top_quarter, touched, usage
from tests.device_model.synthetic_routes import synthetic_routes, zipf_popularity
from tests.examples import examples

ROUTERS = Routers(layers=3, experts=16, top_k=2)
SPECULATION = load_setup("elmoe3d-8gb", "glm-4.7-flash").speculation


def requests(exponent=0.8, repeat=0.5, count=6, tokens=40, seed=0):
    draw = np.random.default_rng(seed)
    popularity = zipf_popularity(ROUTERS.layers, ROUTERS.experts, exponent, draw)
    return [synthetic_routes(popularity, tokens, ROUTERS.top_k, repeat, draw) for _ in range(count)]


def rate(found, share, batch=2):
    return lru_hit_rate(in_lanes(found, batch, 120, np.random.default_rng(1)), ROUTERS, share)


def test_lanes_run_requests_as_they_are_one_after_the_other():
    found = requests(count=3)
    lanes = in_lanes(found, batch=2, steps=100, draw=np.random.default_rng(0))
    assert lanes.shape == (100, 2, 3, 2)
    for lane in range(2):
        played = [next(i for i, r in enumerate(found) if (r == lanes[s : s + 40, lane]).all()) for s in (0, 40)]
        assert len(set(played)) == 2


@examples(30)
@given(st.integers(1, 8), st.integers(0, 50))
def test_a_larger_cache_hits_no_less_and_a_whole_one_all_but_what_is_new(batch, seed):
    found = requests(seed=seed)
    rates = [rate(found, share, batch) for share in (0.2, 0.5, 0.8, 1.0)]
    assert rates == sorted(rates) and rates[-1] > 0.9  # but for what a request is the first to ask for


def test_an_lru_s_rate_is_that_of_the_cache_itself():
    lanes = in_lanes(requests(), 1, 80, np.random.default_rng(0))
    cache, hits, reads = Lru(3, 16), 0.0, 0.0
    for step, routes in enumerate(lanes):
        found = cache.commit(routes, 24)
        hits, reads = (hits + found.hits, reads + found.touched) if step >= 20 else (0.0, 0.0)
    assert lru_hit_rate(lanes, ROUTERS, 0.5) == hits / reads


def test_tokens_of_one_request_touch_fewer_experts_than_those_of_as_many_requests():
    found = requests(repeat=0.7, exponent=0.0)
    lanes = in_lanes(found, 6, 100, np.random.default_rng(0))
    assert touched(runs(found, 6), ROUTERS) < 0.85 * touched(list(lanes), ROUTERS)
    assert touched(runs(found, 1), ROUTERS) == pytest.approx(2 / 16)


def test_usage_and_its_top_quarter():
    even = np.arange(16).reshape(8, 1, 2).repeat(3, axis=1)
    assert usage([even], ROUTERS) == pytest.approx(np.full((3, 16), 1 / 16))
    assert top_quarter(usage([even], ROUTERS)) == pytest.approx([0.25] * 3)
    few = np.array([[[0, 1]] * 3, [[2, 3]] * 3])
    assert top_quarter(usage([few], ROUTERS)) == pytest.approx([1.0] * 3)


def test_the_laws_are_found_again_in_what_they_made():
    true = Locality(0.4, 0.6, 1.0, 0.55, 1.0)
    experts = law(ROUTERS, true, dataclasses.replace(SPECULATION, least_share_of_top_k=1e-3))
    hits = {(s, b): float(experts.hits(s, PassTokens(b, 1))) for s in (0.2, 0.5, 0.8) for b in (1, 4, 16)}
    together = {(n, 1): experts.touched(PassTokens(n, 1)) for n in (2, 8)} | {
        (1, n): experts.touched(PassTokens(1, n)) for n in (2, 8)
    }
    locality, _ = fit(ROUTERS, hits, together, SPECULATION)
    found = (locality.popularity_spread, locality.hit_exponent, locality.draft_exponent)
    assert found == pytest.approx((0.4, 0.6, 0.55), rel=1e-3)


def test_there_are_no_lanes_without_requests():
    with pytest.raises(ValueError, match="at least one"):
        in_lanes([np.zeros((0, 3, 2), dtype=np.int64)], 1, 5, np.random.default_rng(0))

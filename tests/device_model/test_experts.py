"""Do the expert formulas keep within what a cache and a router can do?"""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts import hit_rate, touched_fraction
from device_model.spec import Locality

shares = st.floats(0.0, 1.0)
localities = st.builds(Locality, st.floats(0.05, 1.0), st.floats(0.5, 50.0))


@given(st.integers(1, 256), st.integers(1, 64), st.integers(1, 10_000))
def test_touched_experts_lie_between_top_k_and_all(experts, top_k, tokens):
    top_k = min(top_k, experts)
    touched = experts * touched_fraction(top_k / experts, tokens)
    assert top_k * (1 - 1e-9) <= touched <= experts


def test_one_token_touches_top_k_and_many_touch_all():
    assert 128 * touched_fraction(8 / 128, 1) == pytest.approx(8)
    assert 128 * touched_fraction(8 / 128, 10_000) == pytest.approx(128)


def test_touched_experts_agree_with_drawing_them():
    draw = random.Random(7)
    for tokens in (4, 16, 64):
        trials = [len({e for _ in range(tokens) for e in draw.sample(range(128), 8)}) for _ in range(400)]
        assert np.mean(trials) == pytest.approx(128 * touched_fraction(8 / 128, tokens), rel=0.01)


@given(shares, shares, localities)
def test_the_hit_rate_lies_between_the_cached_fraction_and_one(cached, touched, locality):
    rate = hit_rate(np.array([cached]), touched, locality)[0]
    assert cached - 1e-12 <= rate <= 1


@given(st.lists(shares, min_size=2, max_size=2), shares, localities)
def test_a_larger_cache_hits_no_less(cached, touched, locality):
    smaller, larger = hit_rate(np.array(sorted(cached)), touched, locality)
    assert smaller <= larger + 1e-12


@given(shares, st.lists(shares, min_size=2, max_size=5), localities)
def test_touching_more_experts_hits_no_larger_share(cached, touched, locality):
    rates = [hit_rate(np.array([cached]), t, locality)[0] for t in sorted(touched)]
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(rates))


@given(shares, localities)
def test_a_step_that_touches_all_experts_finds_what_is_cached(cached, locality):
    assert hit_rate(np.array([cached]), 1.0, locality)[0] == pytest.approx(cached)

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.load.arrivals import KINDS, bounded, constant, poisson

rates = st.floats(1e-3, 1e4)
seeds = st.integers(0, 2**32)


@given(st.sampled_from(sorted(KINDS)), rates, seeds)
def test_times_ascend_and_a_seed_repeats_them(kind, rate, seed):
    first, again = (list(islice(KINDS[kind](rate, np.random.default_rng(seed)), 50)) for _ in range(2))
    assert first == again
    assert first[0] >= 0
    assert all(a <= b for a, b in pairwise(first))


@given(rates, seeds)
def test_poisson_keeps_its_rate_and_its_spread(rate, seed):
    n = 2000
    gaps = np.diff([0.0, *islice(poisson(rate, np.random.default_rng(seed)), n)]) * rate
    assert gaps.mean() == pytest.approx(1, abs=7 / n**0.5)  # Exponential gaps: standard deviation = mean.
    assert gaps.std() == pytest.approx(1, abs=0.3)


@given(rates)
def test_constant_is_evenly_spaced_from_0(rate):
    times = list(islice(constant(rate, np.random.default_rng(0)), 100))
    assert times == pytest.approx([i / rate for i in range(100)])


@given(st.sampled_from(sorted(KINDS)), rates, st.one_of(st.none(), st.integers(1, 200)), st.floats(1e-3, 0.1))
def test_bounds_cut_and_change_nothing_else(kind, rate, count, duration_s):
    def times():
        return KINDS[kind](rate, np.random.default_rng(7))

    kept = list(bounded(times(), count, duration_s))
    assert kept == list(islice(times(), len(kept)))
    assert all(at_s < duration_s for at_s in kept)
    assert len(kept) == count or next(islice(times(), len(kept), None)) >= duration_s


@pytest.mark.parametrize("kind", KINDS)
def test_an_infinite_rate_sends_all_at_once(kind):
    assert list(bounded(KINDS[kind](float("inf"), np.random.default_rng(0)), 3, None)) == [0.0, 0.0, 0.0]

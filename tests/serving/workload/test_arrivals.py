"""The laws of arrivals: they ascend, keep their rates and spreads, and follow from the seed."""

from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.workload.arrivals import CHUNK, ClosedLoop, Diurnal, OpenLoop, Ramp, Steady, Steps
from serving.workload.distributions import always

seeds = st.integers(0, 2**32)
rates = st.floats(1e-2, 1e4)
spreads = st.one_of(st.just(0.0), st.floats(0.01, 100.0))
curves = st.one_of(
    st.builds(Steady, rates),
    st.builds(Ramp, rates, rates, st.floats(1, 1e5)),
    st.builds(Diurnal, rates, st.floats(1, 100), st.floats(1, 1e5), st.floats(0, 1e5)),
    st.lists(st.tuples(st.one_of(st.just(0.0), rates), st.floats(0.1, 100)), min_size=1, max_size=5).map(
        lambda steps: Steps(np.array([rate for rate, _ in steps]), np.array([for_s for _, for_s in steps]))
    ),
)


def times(loop: OpenLoop, seed: int = 0, count: int = 2 * CHUNK) -> np.ndarray:
    chunks = loop.times(np.random.default_rng(seed))
    return np.fromiter(islice(chain.from_iterable(chunks), count), np.float64)


@given(curves, spreads, seeds)
def test_times_ascend_from_0_and_a_seed_repeats_them(rate, cv, seed):
    first, again = times(OpenLoop(rate, cv), seed), times(OpenLoop(rate, cv), seed)
    assert np.array_equal(first, again)
    assert (first >= 0).all() and np.isfinite(first).all()
    assert (np.diff(first) >= 0).all()


@given(rates, st.floats(0.1, 3.0), seeds)
def test_a_steady_rate_has_its_mean_and_its_cv(rate, cv, seed):
    gaps = np.diff(times(OpenLoop(Steady(rate), cv), seed, 4 * CHUNK), prepend=0.0) * rate
    assert gaps.mean() == pytest.approx(1, abs=7 * cv / len(gaps) ** 0.5)
    assert gaps.std() == pytest.approx(cv, rel=0.35)


@given(rates)
def test_even_arrivals_are_evenly_spaced_from_0(rate):
    assert np.allclose(times(OpenLoop(Steady(rate), 0.0)), np.arange(2 * CHUNK) / rate)


@given(curves, st.floats(0.05, 0.95))
def test_as_many_arrive_as_the_rate_comes_to(rate, share):
    """Against the rate itself, summed up numerically."""
    at_s = times(OpenLoop(rate, 0.0), count=CHUNK)
    if len(at_s) < 100:
        return
    until_s = at_s[int(share * (len(at_s) - 1))]
    grid = np.linspace(0.0, until_s, 200_001)
    assert np.searchsorted(at_s, until_s) == pytest.approx(np.trapezoid(per_s(rate, grid), grid), rel=0.02, abs=2)


def per_s(rate, at_s: np.ndarray) -> np.ndarray:
    match rate:
        case Steady():
            return np.full_like(at_s, rate.per_s)
        case Ramp():
            return np.interp(at_s, [0, rate.over_s], [rate.from_per_s, rate.to_per_s])
        case Steps():
            place = np.searchsorted(np.cumsum(rate.for_s), at_s, side="right")
            return np.append(rate.per_s, 0.0)[place]
        case Diurnal():
            swing = (rate.peak_to_trough - 1) / (rate.peak_to_trough + 1)
            return rate.mean_per_s * (1 + swing * np.cos(2 * np.pi * (at_s - rate.peak_at_s) / rate.period_s))


def test_a_day_has_its_peak_where_it_says():
    day = Diurnal(mean_per_s=0.5, peak_to_trough=4.0, period_s=86400.0, peak_at_s=50400.0)
    hours = np.histogram(times(OpenLoop(day), 1, 43200), bins=24, range=(0, 86400))[0]
    assert hours[13:15].mean() / hours[1:3].mean() == pytest.approx(4.0, rel=0.15)
    assert hours.sum() / 86400 == pytest.approx(0.5, rel=0.03)


def test_steps_end_and_nobody_comes_in_a_step_of_rate_0():
    at_s = times(OpenLoop(Steps(np.array([5.0, 0.0, 50.0]), np.array([10.0, 100.0, 2.0]))), 3)
    assert at_s[-1] < 112
    assert not ((at_s > 10) & (at_s < 110)).any()
    assert (at_s < 10).sum() == pytest.approx(50, abs=25)
    assert (at_s > 110).sum() == pytest.approx(100, abs=40)


def test_a_ramp_down_to_0_ends():
    at_s = times(OpenLoop(Ramp(10.0, 0.0, 20.0)), 5)
    assert at_s[-1] < 20
    assert len(at_s) == pytest.approx(100, abs=40)


def test_users_begin_one_after_the_other():
    assert ClosedLoop(4, always(0.0), ramp_s=8.0).first_s() == [0.0, 2.0, 4.0, 6.0]
    assert ClosedLoop(2, always(0.0)).first_s() == [0.0, 0.0]

"""Token buckets: never more than the burst and what has come since, and no one waits longer than told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.policies.rate_limit import TokenBucket

GAPS = st.floats(0, 100, allow_subnormal=False)
ASKED = st.lists(st.tuples(GAPS, st.integers(1, 60)), min_size=1, max_size=60)


@given(ASKED, st.floats(0.01, 50), st.integers(1, 50))
def test_no_window_has_more_than_the_burst_and_what_came_in_it(
    asked: list[tuple[float, int]], rate: float, burst: int
) -> None:
    bucket, now, taken = TokenBucket(rate, burst), 0.0, []
    for gap, amount in asked:
        now += gap
        if bucket.wait_s(amount, now) == 0:
            bucket.take(amount, now)
            taken.append((now, amount))
    for i, (start, _) in enumerate(taken):
        total = 0.0
        for at, amount in taken[i:]:
            total += amount
            assert total <= burst + rate * (at - start) + 1e-6 * (1 + rate * now)


@given(ASKED, st.floats(0.01, 50), st.integers(1, 50))
def test_who_waits_as_long_as_told_is_let_in_and_not_sooner(
    asked: list[tuple[float, int]], rate: float, burst: int
) -> None:
    bucket, now = TokenBucket(rate, burst), 0.0
    for gap, amount in asked:
        now += gap
        wait = bucket.wait_s(amount, now)
        if amount > burst:
            assert wait == float("inf")
            continue
        if wait > 1e-3:
            assert bucket.wait_s(amount, now + wait * 0.99) > 0
            now += wait * (1 + 1e-9) + 1e-9
        assert bucket.wait_s(amount, now) < 1e-6
        bucket.take(amount, now)


@given(st.integers(1, 100), st.integers(0, 100), st.floats(0, 100))
def test_what_is_given_back_can_be_taken_again_but_never_more_than_the_burst(
    taken: int, returned: int, gap: float
) -> None:
    bucket = TokenBucket(1.0, 100.0)
    bucket.take(taken, 0.0)
    bucket.give_back(min(returned, taken))
    assert bucket.level(0.0) == 100 - taken + min(returned, taken)
    assert bucket.level(gap) <= 100


def test_a_minutes_worth_may_be_asked_for_at_once_and_is_back_after_a_minute() -> None:
    bucket = TokenBucket.per_minute(600)
    bucket.take(600, 5.0)
    assert bucket.wait_s(1, 5.0) == pytest.approx(0.1)
    assert bucket.wait_s(600, 35.0) == pytest.approx(30.0)
    assert bucket.level(65.0) == pytest.approx(600)
    assert bucket.level(1.0) == pytest.approx(600)  # a clock does not run back

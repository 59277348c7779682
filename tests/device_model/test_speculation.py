"""Is acceptance a chain: its rate the root of its mean, its length what the rate allows, its draws repeatable?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.speculation import accepted_at, chain_rate, mean_accepted, sample_accepted
from device_model.step import DraftShape

depths = st.integers(1, 16)
rates = st.floats(0.0, 1.0)
EXACT = 1e-6  # of bisection, and of 1 - rate^depth for rates next to 1


@given(rates, depths)
def test_the_mean_of_a_chain_is_the_sum_of_its_powers(rate, depth):
    assert mean_accepted(rate, depth) == pytest.approx(sum(rate**i for i in range(1, depth + 1)), abs=EXACT)


@given(rates, depths)
def test_the_rate_is_the_one_whose_mean_is_accepted(share, depth):
    accepted = share * depth
    assert mean_accepted(chain_rate(accepted, depth), depth) == pytest.approx(accepted, abs=EXACT)


@given(st.floats(0.0, 0.999), depths)
def test_and_the_mean_gives_the_rate_back(rate, depth):
    assert chain_rate(mean_accepted(rate, depth), depth) == pytest.approx(rate, abs=1e-5)


@pytest.mark.parametrize(("accepted", "rate"), [(0.0, 0.0), (0.75, 0.5), (2.0, 1.0)])
def test_rates_that_can_be_worked_out_by_hand(accepted, rate):
    """r + r^2 is 0, 0.75 and 2."""
    assert chain_rate(accepted, 2) == pytest.approx(rate, abs=1e-12)


@pytest.mark.parametrize("accepted", [-0.01, 4.01, float("nan")])
def test_more_than_all_or_less_than_none_accepted_is_refused(accepted):
    with pytest.raises(ValueError, match=r"accepted is .*; of 4 draft tokens 0 to 4 can be accepted"):
        chain_rate(accepted, 4)


@given(rates, depths)
def test_at_the_depth_that_was_measured_alpha_of_it_is_accepted(alpha, depth):
    assert accepted_at(alpha, depth, depth) == alpha * depth


@given(rates, depths, depths)
def test_a_deeper_draft_has_more_accepted_and_each_level_adds_less(alpha, measured, depth):
    one, two, three = (accepted_at(alpha, measured, depth + i) for i in range(3))
    assert one <= two + EXACT <= three + 2 * EXACT
    assert three - two <= two - one + EXACT
    assert 0 <= one <= depth + EXACT


@given(st.floats(0.05, 0.95), st.integers(2, 16))
def test_a_draft_of_another_depth_than_measured_has_another_share_accepted(alpha, measured):
    assert accepted_at(alpha, measured, 1) > alpha
    assert accepted_at(alpha, measured, 2 * measured) < 2 * alpha * measured


@given(st.integers(0, 2**32), rates, depths, st.integers(1, 40))
def test_the_same_seed_accepts_the_same(seed, rate, depth, sequences):
    first, second = (sample_accepted(np.random.default_rng(seed), rate, depth, sequences) for _ in range(2))
    assert first.shape == (sequences,) and first.dtype == np.int64
    assert (first == second).all()
    assert ((first >= 0) & (first <= depth)).all()


def test_another_seed_accepts_something_else():
    first, second = (sample_accepted(np.random.default_rng(seed), 0.6, 8, 100) for seed in (1, 2))
    assert (first != second).any()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("depth", [1, 4, 10])
def test_draws_have_the_mean_of_the_chain_and_the_tails_of_its_powers(rate, depth):
    count = 40_000
    drawn = sample_accepted(np.random.default_rng(7), rate, depth, count)
    assert abs(drawn.mean() - mean_accepted(rate, depth)) < 5 * drawn.std() / count**0.5
    for i in range(1, depth + 1):
        tail = rate**i
        assert abs((drawn >= i).mean() - tail) < 5 * (tail * (1 - tail) / count) ** 0.5 + 1e-12


def test_at_the_ends_nothing_is_left_to_chance():
    draw = np.random.default_rng(3)
    assert (sample_accepted(draw, 0.0, 6, 50) == 0).all()
    assert (sample_accepted(draw, 1.0, 6, 50) == 6).all()


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((0, 1, 1), "depth is 0; a draft needs at least 1"),
        ((1, 0, 1), "width is 0; a draft needs at least 1"),
        ((1, 1, 0), "verify_tokens is 0; a draft needs at least 1"),
        ((-2, 1, 4), "depth is -2; a draft needs at least 1"),
        ((5, 1, 4), "verify_tokens is 4; allowed is at least the depth, 5"),
    ],
)
def test_a_tree_that_is_none_is_refused(shape, said):
    with pytest.raises(ValueError) as caught:
        DraftShape(*shape)
    assert str(caught.value) == said


def test_a_chain_whose_every_token_is_verified_is_a_tree():
    assert DraftShape(5, 1, 5).verify_tokens == 5

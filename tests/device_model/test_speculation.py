"""Is acceptance a chain: its rate the root of its mean, its length what the rate allows, its draws repeatable?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.speculation import accepted_at, chain_rate, draws_at, mean_accepted, sample_accepted
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


seeds, positions = st.integers(0, 2**63 - 1), st.integers(0, 2**31)


def drawn(seed, count, depth):
    """As in `count` steps of one request."""
    return draws_at(np.full(count, seed), np.arange(count), depth)


@given(st.lists(st.tuples(seeds, positions), min_size=1, max_size=40), rates, depths)
def test_what_a_sequence_accepts_depends_on_its_seed_and_position_alone(sequences, rate, depth):
    of, at = np.array(sequences).T
    accepted = sample_accepted(draws_at(of, at, depth), rate)
    assert accepted.shape == (len(sequences),) and accepted.dtype == np.int64
    assert ((accepted >= 0) & (accepted <= depth)).all()
    alone = [sample_accepted(draws_at(of[i : i + 1], at[i : i + 1], depth), rate)[0] for i in range(len(of))]
    assert accepted.tolist() == alone


def test_another_seed_accepts_something_else():
    assert (sample_accepted(drawn(1, 100, 8), 0.6) != sample_accepted(drawn(2, 100, 8), 0.6)).any()


@pytest.mark.parametrize("seed", [0, 1, 2**62 + 5])
def test_draws_are_even_and_do_not_follow_from_each_other(seed):
    count = 40_000
    draws = drawn(seed, count, 4)
    assert (draws >= 0).all() and (draws < 1).all()
    shares = np.histogram(draws, bins=20, range=(0, 1))[0] / draws.size
    assert abs(shares - 0.05).max() < 5 * (0.05 * 0.95 / draws.size) ** 0.5
    correlations = np.corrcoef(draws.T) - np.eye(4)
    assert abs(correlations).max() < 5 / count**0.5
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 5 / count**0.5


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("depth", [1, 4, 10])
def test_what_is_accepted_has_the_mean_of_the_chain_and_the_tails_of_its_powers(rate, depth):
    count = 40_000
    accepted = sample_accepted(drawn(7, count, depth), rate)
    assert abs(accepted.mean() - mean_accepted(rate, depth)) < 5 * accepted.std() / count**0.5
    for i in range(1, depth + 1):
        tail = rate**i
        assert abs((accepted >= i).mean() - tail) < 5 * (tail * (1 - tail) / count) ** 0.5 + 1e-12


def test_at_the_ends_nothing_is_left_to_chance():
    assert (sample_accepted(drawn(3, 50, 6), 0.0) == 0).all()
    assert (sample_accepted(drawn(3, 50, 6), 1.0) == 6).all()


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

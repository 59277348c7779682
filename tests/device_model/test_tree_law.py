"""Does a tree have as many drafts accepted as its best paths promise, and never fewer for being larger?"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.speculation import mean_accepted
from device_model.step import DraftShape
from device_model.tree_law import CANDIDATES, FALL, POINTS, SECOND, accepted_by, accepted_of

NEARLY = 1e-9
shapes = st.builds(
    lambda d, w, more: DraftShape(d, w, d + more), st.integers(1, 8), st.integers(1, 14), st.integers(0, 30)
)
alphas = st.floats(0.0, 1.0)


@given(st.integers(1, 20))
def test_of_width_one_it_is_the_chain(depth):
    wanted = [mean_accepted(float(right), depth) for right in POINTS]
    assert accepted_by(DraftShape(depth, 1, depth)) == pytest.approx(wanted)


@pytest.mark.parametrize(("depth", "width", "verify"), [(2, 2, 3), (3, 2, 4), (3, 3, 7), (2, 4, 8)])
def test_it_is_the_sum_over_the_best_nodes_of_all(depth, width, verify):
    for right in (0.3, 0.6, 0.9):
        chances = [right, *(SECOND * right * (1 - right) * (rank - 1) ** -FALL for rank in range(2, width + 1))]
        levels = [sorted((float(np.prod(path)) for path in product(chances, repeat=d)), reverse=True)[:width] for d in
                  range(1, depth + 1)]  # fmt: skip
        best = sorted((chance for level in levels for chance in level), reverse=True)[:verify]
        found = float(np.interp(right, POINTS, accepted_by(DraftShape(depth, width, verify))))
        assert found == pytest.approx(sum(best), rel=1e-3)


@given(shapes, shapes, alphas)
def test_what_is_accepted_is_a_share_of_the_depth_and_rises_with_the_rate(measured, shape, alpha):
    found = accepted_of(alpha, measured, shape)
    assert 0 <= found <= shape.depth + NEARLY
    assert accepted_of(0.0, measured, shape) <= found + NEARLY
    assert accepted_of(1.0, measured, shape) >= found - NEARLY
    assert accepted_of(alpha, shape, shape) == alpha * shape.depth


@given(shapes)
def test_chances_behind_a_token_are_chances_and_a_tree_never_loses_by_a_better_draft(shape):
    rest = SECOND * np.arange(1, CANDIDATES, dtype=float) ** -FALL
    assert (POINTS + POINTS * (1 - POINTS) * rest.sum() <= 1 + NEARLY).all()
    assert (np.diff(accepted_by(shape)) >= -NEARLY).all()


@given(shapes, alphas, st.integers(1, 6))
def test_a_deeper_wider_or_larger_tree_never_has_fewer_accepted(shape, alpha, more):
    measured, depth, width, verify = DraftShape(5, 1, 5), shape.depth, shape.width, shape.verify_tokens
    found = accepted_of(alpha, measured, shape)
    for larger in (
        DraftShape(depth, width, verify + more),
        DraftShape(depth, width + more, verify),
        DraftShape(depth + more, width, verify + more),
    ):
        assert accepted_of(alpha, measured, larger) >= found - NEARLY


def test_a_share_beyond_one_is_refused():
    with pytest.raises(ValueError, match=r"alpha is 1\.5"):
        accepted_of(1.5, DraftShape(5, 1, 5), DraftShape(4, 1, 4))

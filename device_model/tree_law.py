"""Tree law: how many tokens of a draft's tree are accepted, by its depth, width and verify budget.

As Sequoia (Chen et al. 2024) has it, a token is right with a chance that depends only on its rank among a draft's
candidates, once all before it are. The likeliest is right with the chance p; the others have of p (1 - p) what was
measured on the bundled token model, over pools of 4 to 64 of its 64 experts (p of 0.39 to 0.97; 5,174 tokens of greedy
answers): 0.35 to 0.40 the second (0.65 where the pool has all experts), 0.15 to 0.20 the third, 0.10 to 0.15 the
fourth, which is 0.42 / (rank - 1)^1.3 as well as one line can be (`tests/serving/drafting/test_ranks.py` measures it
again). The model before had 0.41 to 0.73, 0.11 to 0.22 and 0.09 to 0.13. p follows from the published rate, at the
calibrated tree.

The tree itself is the best there is (EAGLE-2; ELMoE-3D, 2.2): of each level the `width` likeliest paths are drafted on,
and of all of them the likeliest are verified. What is accepted is the sum of their chances.
"""

from functools import lru_cache

import numpy as np

from device_model.step import DraftShape, FloatArray

SECOND, FALL = 0.42, 1.3
# Candidates behind one token. The chances of more would, with those before them, add up to more than 1.
CANDIDATES = 12
POINTS = np.linspace(0.0, 1.0, 513)


def accepted_of(alpha: float, measured: DraftShape, shape: DraftShape) -> float:
    """Return the accepted tokens of a draft of a `shape`, on average, where one of a `measured` shape has the share
    `alpha` of its depth accepted. Raise ValueError for a share that is not 0 to 1."""
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha is {alpha}; a share of accepted drafts is 0 to 1")
    if shape == measured:
        return alpha * shape.depth
    right = np.interp(alpha * measured.depth, accepted_by(measured), POINTS)
    return float(np.interp(right, POINTS, accepted_by(shape)))


@lru_cache(maxsize=1024)
def accepted_by(shape: DraftShape) -> FloatArray:
    """Return the accepted tokens of a tree where the likeliest candidate is right with each chance of `POINTS`."""
    chances = _chances(shape.width)
    level = np.ones((len(POINTS), 1))
    levels = []
    for _ in range(shape.depth):
        level = _likeliest((level[:, :, None] * chances[:, None, :]).reshape(len(POINTS), -1), shape.width)
        levels.append(level)
    accepted: FloatArray = _likeliest(np.concatenate(levels, axis=1), shape.verify_tokens).sum(axis=1)
    accepted.flags.writeable = False
    return accepted


def _chances(width: int) -> FloatArray:
    """Return the chances of the candidates behind a token [points, at most `width`], the likeliest first."""
    others = SECOND * np.arange(1, min(width, CANDIDATES), dtype=np.float64) ** -FALL
    of_others: FloatArray = (POINTS * (1.0 - POINTS))[:, None] * others
    return np.concatenate([POINTS[:, None], of_others], axis=1)


def _likeliest(chances: FloatArray, count: int) -> FloatArray:
    """Return the `count` largest of each row, or all of them."""
    if chances.shape[1] <= count:
        return chances
    return -np.partition(-chances, count - 1, axis=1)[:, :count]

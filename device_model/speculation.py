"""How many of a draft's tokens are accepted: the paper's acceptance rate as a chain, drawn for each sequence."""

from functools import lru_cache

import numpy as np

from device_model.step import IntArray

BISECTIONS = 60


@lru_cache(maxsize=4096)
def chain_rate(accepted: float, depth: int) -> float:
    """The chance that a token is accepted once its parent is, if of `depth` tokens `accepted` are on average.

    The root of a + a^2 + ... + a^depth = accepted, by bisection; ValueError unless 0 <= accepted <= depth.
    """
    if not 0 <= accepted <= depth:
        raise ValueError(f"accepted is {accepted}; of {depth} draft tokens 0 to {depth} can be accepted")
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_accepted(middle, depth) < accepted else (low, middle)
    return (low + high) / 2


def mean_accepted(rate: float, depth: int) -> float:
    """Accepted tokens of a chain of `depth`, on average: the sum of rate^i."""
    return float(depth) if rate >= 1 else rate * (1 - rate**depth) / (1 - rate)


def accepted_at(alpha: float, measured_depth: int, depth: int) -> float:
    """Accepted tokens of a draft of `depth`, where one of `measured_depth` has `alpha` of its depth accepted."""
    if depth == measured_depth:
        return alpha * depth
    return mean_accepted(chain_rate(alpha * measured_depth, measured_depth), depth)


def sample_accepted(rng: np.random.Generator, rate: float, depth: int, sequences: int) -> IntArray:
    """Accepted tokens [sequences] of one step, drawn from the chain: at least i <= `depth` with chance rate^i.

    The generator is the caller's: seeded for each request, a replay accepts the same.
    """
    passed = rng.random((sequences, depth)) < rate
    accepted: IntArray = np.cumprod(passed, axis=1, dtype=np.int64).sum(axis=1)
    return accepted

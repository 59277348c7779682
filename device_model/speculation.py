"""Accepted tokens of a draft: the paper's acceptance rate as a chain, drawn for each sequence."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from device_model.step import FloatArray, IntArray

BISECTIONS = 60
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
BITS_11, BITS_27, BITS_30, BITS_31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)


@lru_cache(maxsize=4096)
def chain_rate(accepted: float, depth: int) -> float:
    """Return the chance that a token is accepted once its parent is, if of `depth` tokens `accepted` are on average.

    The root of a + a^2 + ... + a^depth = accepted, by bisection; raise ValueError unless 0 <= accepted <= depth.
    """
    if not 0 <= accepted <= depth:
        raise ValueError(f"accepted is {accepted}; of {depth} draft tokens 0 to {depth} can be accepted")
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_accepted(middle, depth) < accepted else (low, middle)
    return (low + high) / 2


def mean_accepted(rate: float, depth: int) -> float:
    """Return the accepted tokens of a chain of `depth`, on average: the sum of rate^i."""
    return float(depth) if rate >= 1 else rate * (1 - rate**depth) / (1 - rate)


def accepted_at(alpha: float, measured_depth: int, depth: int) -> float:
    """Return the accepted tokens of a draft of `depth`, where one of `measured_depth` has the share `alpha`
    accepted."""
    if depth == measured_depth:
        return alpha * depth
    return mean_accepted(chain_rate(alpha * measured_depth, measured_depth), depth)


def sample_accepted(draws: FloatArray, rate: float) -> IntArray:
    """Return the accepted tokens [sequences] of one step, drawn from the chain: at least i with chance rate^i. `draws`
    [sequences, depth] are even in [0, 1), as `draws_at` has them."""
    accepted: IntArray = np.cumprod(draws < rate, axis=1, dtype=np.int64).sum(axis=1)
    return accepted


def draws_at(seeds: IntArray, positions: IntArray, depth: int) -> FloatArray:
    """Even draws [sequences, depth] in [0, 1) that depend on each sequence's seed and position alone, so that a replay,
    or a retry from any token on, accepts the same.

    By hashing twice with the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
    generators, OOPSLA 2014), which takes neighbouring positions to numbers that are independent for our purpose.
    """
    places = np.arange(1, depth + 1, dtype=np.uint64) * GOLDEN
    keys = _mixed(seeds.astype(np.uint64) + positions.astype(np.uint64) * GOLDEN)
    draws: FloatArray = (_mixed(keys[:, None] + places) >> BITS_11).astype(np.float64) * 2.0**-53
    return draws


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> BITS_30)) * FIRST
    z = (z ^ (z >> BITS_27)) * SECOND
    return z ^ (z >> BITS_31)

"""Hotness gain: how many times as many drafts a pool has accepted that was chosen by hotness, not at random.

ELMoE-3D has about 1.22 (Fig. 17a, GLM-4.7-Flash), and does not say of which pool. It can't be the same for each: a pool
of all experts gains nothing. So the gain has the form, by the share of the experts in the pool, that was measured on
the bundled token model with real pools of both kinds (`foreserve speculate`), at the height of the published figure.
"""

from functools import cache

import numpy as np

from device_model.specs.measured_rates import read_measured

PUBLISHED = 1.22
PUBLISHED_SHARE = 0.40
"""Of GLM-4.7-Flash's experts, whose slices have room on 8 GB beside a sequence of 1k: what Fig. 17 is taken for."""


def hotness_gain(share: float) -> float:
    """Return the gain of a pool with such a share of the experts; below those measured, the smallest's."""
    return 1.0 + (PUBLISHED - 1.0) * _measured(share) / _measured(PUBLISHED_SHARE)


def _measured(share: float) -> float:
    """Return the gain beyond 1 on the token model."""
    return float(np.interp(share, *_points()))


@cache
def _points() -> tuple[list[float], list[float]]:
    rates = read_measured()
    shares = sorted(share for share, batch in rates.points["hot"] if batch == 1)
    return shares, falling([rates.alpha("hot", share, 1) / rates.alpha("random", share, 1) - 1.0 for share in shares])


def falling(values: list[float]) -> list[float]:
    """Return the values that never rise and are nearest to these, by least squares: the fewer experts a pool has, the
    more hotness tells, and where a larger pool was measured to gain more, that is within errors and both have their
    mean. (Pool adjacent violators, Ayer et al. 1955.)"""
    pools: list[tuple[float, int]] = []
    for value in values:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (one, ones), (two, twos) = pools[-2:]
            pools[-2:] = [((one * ones + two * twos) / (ones + twos), ones + twos)]
    return [mean for mean, count in pools for _ in range(count)]

"""Popularity of experts, drawn: how strongly a router must lean to each expert so that tokens choose it as often.

An expert's share of the tokens has a Beta distribution, of mean top-k / experts and of 1 / spread as its first
parameter, as in `device_model/experts/popularity.py`. What a router says of an expert is its leaning plus noise of a
normal distribution, so that one whose leaning is the quantile of its share is above 0 for that share of the tokens.
That a router takes the top k, not what is above 0, makes little of a difference: batches of 1 to 128 tokens choose as
many of Qwen3's experts as by the law, within 1.5 %, as a test sees.
"""

from math import exp, lgamma
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

SPREAD = 3.54
"""Of Qwen3-30B-A3B: `popularity_spread` in device_model/specs/calibration/realisable/qwen3-30b-a3b.toml, fitted on the
cells of ELMoE-3D's Table 3 that have no cache."""

DRAWS = 1000
"""Draws for each expert of a layer: sorted, an expert has the mean of the next so many, so that each layer is like the
law, and 48 of them need not average out."""
SMALLEST_SHARE = 1e-9


def leanings(experts: int, top_k: int, spread: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Draw the leanings of one layer's experts, in standard deviations of the noise; none if the spread is 0."""
    if not spread:
        return np.zeros(experts)
    draws = np.sort(random.beta(1.0 / spread, (experts / top_k - 1.0) / spread, experts * DRAWS))
    shares = random.permutation(draws.reshape(experts, DRAWS).mean(axis=1))
    kept = np.clip(shares, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
    return np.array([NormalDist().inv_cdf(share) for share in kept])


def distinct_by_law(experts: int, top_k: int, spread: float, batch: int) -> float:
    """Return how many experts of a layer the tokens of a batch choose by the law, on average."""
    if not spread:
        return experts * (1.0 - (1.0 - top_k / experts) ** batch)
    # Of Beta(alpha, beta), E[(1 - p)^b] = B(alpha, beta + b) / B(alpha, beta).
    alpha = 1.0 / spread
    beta = alpha * (experts / top_k - 1.0)
    unread = lgamma(beta + batch) - lgamma(beta) + lgamma(alpha + beta) - lgamma(alpha + beta + batch)
    return experts * (1.0 - exp(unread))

"""Popularity of experts: how many of them the tokens of a batch read, as they prefer the same ones.

Experts differ in how often a token chooses them: by a Beta distribution of mean k/E and of 1 / `popularity_spread` as
its first parameter. Requests choose independently, so that b of them leave an expert unread with E[(1 - p)^b]. The rows
of ELMoE-3D's Table 3 that have no cache measure this, and one figure a model reproduces them.
"""

from functools import lru_cache
from math import lgamma, log

from device_model.specs.calibrated import Locality
from device_model.specs.fitted import fitted
from device_model.specs.law import Law
from device_model.specs.spec import Model


def free_choices(top_share: float, spread: float, sequences: int) -> float:
    """Return how many free choices, of the share `top_share` of all experts each, leave as many experts unread as those
    of so many sequences."""
    if not spread or not 0.0 < top_share < 1.0:
        return float(sequences)
    # Of Beta(alpha, beta), E[(1 - p)^b] = B(alpha, beta + b) / B(alpha, beta).
    alpha = 1.0 / spread
    beta = alpha * (1.0 / top_share - 1.0)
    unread = lgamma(beta + sequences) - lgamma(beta) + lgamma(alpha + beta) - lgamma(alpha + beta + sequences)
    return unread / log(1.0 - top_share)


@lru_cache(maxsize=256)
def spread_of(model: Model) -> float:
    """Return a model's popularity spread, which both laws have in common; 0 where nobody has measured it."""
    return fitted(Locality, model.calibration, Law.REALISABLE).popularity_spread if model.experts else 0.0

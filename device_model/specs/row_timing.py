"""Row timing: tRCD of a row of monolithic 3D DRAM, by tier and by the number of layers.

A word line reaches its layer over a staircase whose length grows with the layer, so that tRCD is that of a wire whose
resistance and capacitance both grow: a constant, a linear and a quadratic term (Stratum, arXiv 2510.05245, 6.2.1 and
Fig. 14). Its Table 1 has the eight tiers of 1,024 layers; the law through them misses none by more than 0.003 ns.
"""

import numpy as np

from device_model.step import FloatArray


def trcd_ns(published: FloatArray, published_layers: int, layers: int) -> FloatArray:
    """tRCD in ns by tier [tiers] of as many `layers`, from those `published` [tiers] of `published_layers`.

    Tier i of N layers ends where tier i N / published_layers would. Two tiers tell of no quadratic term.
    """
    if layers == published_layers:
        return published
    ends = np.arange(1, len(published) + 1)
    law = np.polyfit(ends, published, min(2, len(published) - 1))
    times: FloatArray = np.polyval(law, ends * layers / published_layers)
    return times


def stretched_ns(trc_ns: FloatArray, slowest_over_fastest: float) -> FloatArray:
    """tRC by tier [tiers] of another ratio: the same fastest tier, and the same shape. Tiers that all take equally long
    have none, and stay."""
    fastest, slowest = trc_ns[0], trc_ns[-1]
    if slowest == fastest:
        return trc_ns
    times: FloatArray = fastest + (trc_ns - fastest) * (slowest_over_fastest - 1) * fastest / (slowest - fastest)
    return times

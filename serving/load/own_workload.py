"""The workload that a load run's options describe, where there is no workload file."""

import numpy as np

from serving.load.options import KINDS, LoadOptions
from serving.workload.arrivals import OpenLoop, Steady
from serving.workload.distributions import Distribution, always
from serving.workload.spec import Sessions, Workload


def workload_of(options: LoadOptions) -> Workload:
    """Return an open loop of single requests without topics: prompts of common words, no two of which begin alike."""
    return Workload(
        arrivals=OpenLoop(Steady(options.rate_per_s), KINDS[options.arrivals]),
        prompt=_about(options.input_len, options.range_ratio),
        output=_about(options.output_len, options.range_ratio),
        sessions=Sessions(always(1.0), always(0.0)),
        seed=options.seed or 0,
        requests=options.count,
        duration_s=options.duration_s,
    )


def _about(mean: int, ratio: float) -> Distribution:
    """Return the uniform distribution of whole numbers within ±`ratio` of `mean`, at least 1."""
    low, high = max(1, round(mean * (1 - ratio))), max(1, round(mean * (1 + ratio)))

    def sample(rng: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return rng.integers(low, high + 1, count).astype(np.float64)

    return Distribution(sample)

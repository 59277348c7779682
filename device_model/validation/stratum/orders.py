"""Rankings that Stratum prints in words: each as the share of cases in which it holds, 1 if in all."""

from collections.abc import Callable, Iterable
from itertools import pairwise

from device_model.validation.stratum.requests import request_latency, swap_ms
from device_model.validation.stratum.setting import (
    BASELINE,
    BATCH,
    HIT_LENGTHS,
    LENGTHS,
    SCALED_BATCHES,
    SCALED_LENGTHS,
    STRATUM,
    Setting,
    decode_s,
)
from device_model.validation.stratum.throughput import hot_hits, over_gpu, scaled

SCALED, HOT, SMALL = "llama-4-scout", "mixtral-8x7b", 0.01


def _share(holds: Iterable[bool]) -> float:
    cases = list(holds)
    return sum(cases) / len(cases)


def tiers_over_none_over_gpu(setting: Setting) -> float:
    """Tell whether tiers are faster than none, and these than the GPU, for each model and length."""
    return _share(
        decode_s(setting.near(model), BATCH, n) < decode_s(setting.near(model, "flat"), BATCH, n) < gpu_s
        for model in BASELINE
        for n in LENGTHS
        for gpu_s in [decode_s(setting.gpu(model), BATCH, n)]
    )


def gap_with_length(setting: Setting) -> float:
    """Tell whether the GPU falls further behind from each length to the next, for each model."""
    return _share(
        over_gpu(setting, model, BATCH, shorter) < over_gpu(setting, model, BATCH, longer)
        for model in BASELINE
        for shorter, longer in pairwise(LENGTHS)
    )


def hits_at_short_lengths(setting: Setting) -> float:
    """Tell whether hot hits gain more at the shortest length than at the longest."""
    shortest, longest = (hot_hits(setting, HOT, length) for length in HIT_LENGTHS)
    return float(shortest > longest)


def advantage_with_batch(setting: Setting) -> float:
    """Tell whether the advantage falls from each batch to the next, and most at the shortest length."""
    ratios = scaled(setting, SCALED)
    falls = [
        ratios[more, length] < ratios[less, length]
        for less, more in pairwise(SCALED_BATCHES)
        for length in SCALED_LENGTHS
    ]
    first, last = SCALED_BATCHES[0], SCALED_BATCHES[-1]
    lost = [ratios[last, length] / ratios[first, length] for length in SCALED_LENGTHS]
    return _share([*falls, lost[0] == min(lost)])


def small_swaps(setting: Setting) -> float:
    """Tell whether swaps take less than a hundredth of a request's time."""
    models = [model for model in STRATUM if setting.near(model).setup.model.experts]
    return _share(swap_ms(setting, model) * 1e-3 < SMALL * request_latency(setting, model) for model in models)


ORDERS: dict[str, Callable[[Setting], float]] = {
    "tiering > no tiering > GPU in every case": tiers_over_none_over_gpu,
    "gap to the GPU grows with the length": gap_with_length,
    "gain of hot hits is larger at short lengths": hits_at_short_lengths,
    "advantage falls with the batch, most at 1024 tokens": advantage_with_batch,
    "swaps below 1 % of time": small_swaps,
}
"""By the metric that is published."""

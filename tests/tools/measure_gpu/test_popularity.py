"""Do the routers of a model that is measured lean to its experts as the emulated model's tokens choose them?"""

import numpy as np
import pytest

from device_model.experts.popularity import free_choices, spread_of
from device_model.load import load_model
from tools.measure_gpu.popularity import SPREAD, distinct_by_law, leanings

EXPERTS, TOP_K = 128, 8
LAYERS, TOKENS = 12, 512


def chosen(spread: float, batch: int) -> float:
    """Experts of a layer that batches choose, on average over layers."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(LAYERS):
        said = leanings(EXPERTS, TOP_K, spread, random) + random.standard_normal((TOKENS, EXPERTS))
        top = np.argpartition(-said, TOP_K)[:, :TOP_K]
        found += [len(np.unique(top[first : first + batch])) for first in range(0, TOKENS, batch)]
    return float(np.mean(found))


def test_the_spread_is_the_one_that_is_fitted() -> None:
    assert spread_of(load_model("qwen3-30b-a3b")) == SPREAD


@pytest.mark.parametrize("spread", [0.0, 0.5, SPREAD])
@pytest.mark.parametrize("batch", [1, 16, 200])
def test_the_law_is_the_device_models(spread: float, batch: int) -> None:
    free = free_choices(TOP_K / EXPERTS, spread, batch)
    expected = EXPERTS * (1 - (1 - TOP_K / EXPERTS) ** free)
    assert distinct_by_law(EXPERTS, TOP_K, spread, batch) == pytest.approx(expected)


@pytest.mark.parametrize(("spread", "experts"), [(SPREAD, 47), (0.0, 83)])
def test_a_batch_of_16_chooses_as_many_as_were_measured_with(spread: float, experts: int) -> None:
    assert distinct_by_law(EXPERTS, TOP_K, spread, 16) == pytest.approx(experts, abs=0.6)


@pytest.mark.parametrize("spread", [SPREAD, 0.0])
@pytest.mark.parametrize("batch", [4, 16, 128])
def test_routers_choose_as_by_the_law(spread: float, batch: int) -> None:
    assert chosen(spread, batch) == pytest.approx(distinct_by_law(EXPERTS, TOP_K, spread, batch), rel=0.015)

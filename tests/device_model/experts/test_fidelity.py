"""Do the analytic law and a real cache answer alike, and does a device use whichever it is given?"""

import numpy as np
import pytest

from device_model.experts.fidelity import Analytic, CacheAsk
from device_model.experts.locality_laws import PassTokens
from device_model.experts.residency import Lru
from device_model.experts.traced_cache import TracedCache
from device_model.load import load_device, trace_experts
from device_model.specs.spec import DeviceError
from device_model.step import StepPlan
from tests.device_model.synthetic_routes import synthetic_routes, zipf_popularity

LAYERS, EXPERTS, TOP_K = 48, 128, 8


def routes(tokens: int, seed: int) -> np.ndarray:
    popularity = zipf_popularity(LAYERS, EXPERTS, 0.8, np.random.default_rng(0))
    return synthetic_routes(popularity, tokens, TOP_K, 0.4, np.random.default_rng(seed))


def plan(batch: int, seed: int, draft=None, tokens: int = 1) -> StepPlan:
    each = np.ones(batch, dtype=np.int64)
    return StepPlan(each, each * 1024, draft, routes(batch * tokens, seed))


def test_both_answer_in_slices_within_what_there_is():
    device = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
    ask = CacheAsk(PassTokens(4, 1), 1400, routes=routes(4, 1))
    for cache in (Analytic(device.experts, device.size.experts), TracedCache(Lru(LAYERS, EXPERTS))):
        reads = cache.probe(ask)
        assert 0 <= reads.hits <= reads.touched <= LAYERS * EXPERTS
        assert reads.written <= 1400
        assert cache.probe(ask) == reads


def test_a_traced_device_gets_faster_as_its_cache_fills_and_only_by_commits():
    device = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
    trace_experts(device)
    step = plan(1, 7)
    cold = device.probe(step)
    assert cold.first.expert_hits == 0 and device.probe(step).latency_s[0] == cold.latency_s[0]
    device.commit(step)
    warm = device.probe(step)
    assert warm.first.expert_hits == warm.first.expert_lookups == LAYERS * TOP_K
    assert warm.latency_s[0] < cold.latency_s[0] / 3


def test_a_traced_cache_serves_verification():
    device = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic")
    trace_experts(device)
    shape = device.draft.shape
    first, second = (plan(2, seed, shape, shape.verify_tokens) for seed in (1, 2))
    assert device.probe(first).first.expert_hits == 0
    device.commit(first)
    cost = device.probe(second).first
    assert 0.2 < cost.expert_hits / cost.expert_lookups < 1


def test_the_law_is_of_the_order_of_a_real_cache():
    """Synthetic routes are not Qwen3's, so only the order of magnitude can be the same."""
    traced, law = (load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b") for _ in range(2))
    trace_experts(traced)
    steps = [plan(4, seed) for seed in range(40)]
    for step in steps:
        traced.commit(step)
    costs = [device.probe(steps[0]).first for device in (traced, law)]
    found = [cost.expert_hits / cost.expert_lookups for cost in costs]
    assert found[0] == pytest.approx(found[1], rel=0.5)


@pytest.mark.parametrize("names", [("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b"), ("offload", "a100-8gb", "olmoe-1b-7b")])
@pytest.mark.parametrize("steps", [1, 20])
def test_a_trace_needs_routes_also_of_a_plan_that_the_law_has_answered(names, steps):
    device, asked = load_device(*names), StepPlan.of((1, 1000))
    device.probe(asked, steps)
    trace_experts(device)
    with pytest.raises(ValueError, match="The plan has no routes"):
        device.probe(asked, steps)


def test_what_a_trace_needs_is_said():
    device = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
    trace_experts(device)
    with pytest.raises(ValueError, match="The plan has no routes"):
        device.probe(StepPlan.of((1, 1000)))
    with pytest.raises(DeviceError, match="Only systems that cache experts"):
        trace_experts(load_device("pim", "elmoe3d-8gb", "qwen3-30b-a3b"))

"""Do the metrics say what steps did?"""

import dataclasses
from itertools import pairwise

import pytest

from serving.reports.policy_comparison import mixed, run
from tests.serving.telemetry.metrics.samples import FIGURES, SCENARIO, flight, measured, record, release


def test_all_that_steps_did_is_in_the_totals() -> None:
    metrics, registry = measured()
    _, records = run(SCENARIO, mixed(30, seed=3, rate_per_s=1.5))
    for each in records:
        metrics.on_step(each)

    def value(name: str, **labels: str) -> float:
        found = registry.get_sample_value(f"foreserve_{name}", {"device": "0"} | labels)
        assert found is not None, name
        return found

    stages = ("prefill", "mixed", "decode", "draft", "verify", "update")
    assert sum(value("stage_seconds_total", stage=stage) for stage in stages) == pytest.approx(
        sum(each.latency_s for each in records)
    )
    assert value("busy_seconds_total") == pytest.approx(sum(each.latency_s for each in records))
    assert value("energy_joules_total", component="hb") == pytest.approx(sum(each.energy_j[2] for each in records))
    assert value("tier_bytes_total", tier="lpddr") == pytest.approx(sum(each.traffic_bytes[1] for each in records))
    assert value("accepted_length_sum") == sum(each.accepted for each in records)
    decoding = [each.mode for each in records if each.phase != "prefill"]
    changes = sum(one != other for one, other in pairwise(decoding))
    switches = metrics.steps.switches.values
    assert sum(switches.values()) == changes > 0
    assert {labels[1] for labels in switches} == {"sd", "ar"}
    assert value("mode", mode=decoding[-1]) == 1


def test_swaps_are_counted_with_what_they_took() -> None:
    metrics, registry = measured()
    names = [f"foreserve_expert_{name}_total" for name in ("swaps", "swap_seconds", "swap_joules")]
    assert [registry.get_sample_value(name, {"device": "0"}) for name in names] == [0, 0, 0]
    following = dataclasses.replace(SCENARIO, placement="topic", swap="always", mode="fixed-ar")
    _, records = run(following, mixed(30, seed=3, rate_per_s=15.0))
    for each in records:
        metrics.on_step(each)
    counted = [sum(getattr(each, name) for each in records) for name in ("swaps", "swap_s", "swap_j")]
    assert min(counted) > 0
    assert [registry.get_sample_value(name, {"device": "0"}) for name in names] == pytest.approx(counted)


def test_accepted_tokens_by_position_add_up() -> None:
    metrics, registry = measured()
    metrics.on_step(record(mode="sd", drafts=6, drafted=18, accepted=8, draft_s=0.004, accepted_by=[2, 1, 2, 1]))

    def at(position: int) -> float | None:
        labels = {"model_name": "m", "engine": "0", "position": str(position)}
        return registry.get_sample_value("vllm:spec_decode_num_accepted_tokens_per_pos_total", labels)

    assert [at(position) for position in range(3)] == [4, 3, 1]


def test_prompts_come_from_where_they_come_from_and_no_source_takes_back_what_it_gave() -> None:
    metrics, registry = measured()
    labels = {"model_name": "m", "engine": "0"}

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"vllm:prompt_tokens{name}_total", labels | more)

    # Of another prompt, whose client went away before its first token.
    metrics.on_step(record(cached_tokens=16))
    for own, cached in ((10, 10), (6, 16), (0, 16)):
        request = flight()
        request.cached = own
        release(metrics, request, 1, None)
        assert value("_cached") == value("_by_source", source="local_cache_hit") == cached
        assert value("_cached_by_source", source="device") == cached
        assert (value("_by_source", source="local_compute") or 0) + cached == value("")


def test_a_kv_cache_is_never_more_than_full() -> None:
    metrics, registry = measured()
    metrics.on_begin(flight())
    metrics.on_step(record(kv_tokens=2 * FIGURES.kv_capacity_tokens))
    assert registry.get_sample_value("vllm:kv_cache_usage_perc", {"model_name": "m", "engine": "0"}) == 1

"""Do the metrics say what devices draw, hold and are?"""

import dataclasses

import pytest

from device_model.condition import Condition
from serving.cluster.node import Node, State
from tests.serving.telemetry.metrics.samples import (
    EMULATED,
    FIGURES,
    IDLE_W,
    Clock,
    finish,
    flight,
    measured,
    node,
    record,
)


def test_an_idle_device_draws_static_power_and_no_step_is_counted_twice() -> None:
    clock = Clock()
    metrics, registry = measured(clock=clock)
    clock.until(2.0)
    assert registry.get_sample_value("foreserve_idle_energy_joules_total", {"device": "0"}) == pytest.approx(2 * IDLE_W)
    request = flight()
    metrics.on_begin(request)
    metrics.on_step(record(start_s=3.0, latency_s=0.5))
    metrics.on_step(record(start_s=3.5, latency_s=0.5))
    clock.until(4.2)
    assert metrics.energy_j(0) == pytest.approx(3 * IDLE_W + 0.1)
    assert registry.get_sample_value("foreserve_power_watts", {"device": "0"}) == pytest.approx(0.1)
    finish(metrics, request, "stop")
    clock.until(5.0)
    assert metrics.energy_j(0) == pytest.approx(4 * IDLE_W + 0.1)
    clock.until(9.0)
    assert registry.get_sample_value("foreserve_power_watts", {"device": "0"}) == pytest.approx(IDLE_W)


def test_memory_in_use_is_no_more_than_there_is_and_grows_with_the_kv_cache() -> None:
    metrics, registry = measured()
    metrics.on_begin(flight())
    metrics.on_step(record(kv_tokens=5_000))

    def used(tier: str, kind: str) -> float:
        labels = {"device": "0", "tier": tier, "kind": kind}
        return registry.get_sample_value("foreserve_tier_used_bytes", labels) or 0.0

    small = used("hb", "kv")
    metrics.on_step(record(kv_tokens=10_000))
    assert used("hb", "kv") == pytest.approx(2 * small)
    assert small > 0
    for tier in ("hb", "lpddr"):
        capacity = registry.get_sample_value("foreserve_tier_capacity_bytes", {"device": "0", "tier": tier})
        assert sum(used(tier, kind) for kind in ("static", "kv", "draft", "experts")) <= (capacity or 0) * (1 + 1e-9)


def test_hb_is_not_full_while_drafts_fill_a_part_of_it() -> None:
    """The slices of all of OLMoE's experts take half of 8 GB."""
    metrics, registry = measured(0)
    spec = EMULATED._replace(hardware="elmoe3d-8gb", model="olmoe-1b-7b", draft="elastic")
    metrics.on_change(Node(0, spec, FIGURES, None, None, None, State.SERVING))
    metrics.on_begin(flight())
    held = {"device": "0", "tier": "hb", "kind": "experts"}
    used = []
    for mode in ("ar", "sd"):
        metrics.on_step(record(mode=mode))
        used.append(registry.get_sample_value("foreserve_tier_used_bytes", held) or 0.0)
    assert used[1] == pytest.approx(3.62e9, rel=2e-3) and used[0] > 1.9 * used[1]


def test_devices_that_share_a_slow_tier_have_together_what_there_is() -> None:
    """It holds weights once, and the KV cache of each."""
    held = {}
    for sharers in (1, 4):
        metrics, registry = measured(0)
        for index in range(sharers):
            spec = EMULATED._replace(sharers=sharers)
            metrics.on_change(Node(index, spec, FIGURES, None, None, None, State.SERVING))
            metrics.on_begin(flight(device=index))
            metrics.on_step(record(device=index, kv_tokens=1_000_000))
        samples = [s for f in registry.collect() for s in f.samples if s.labels.get("tier") == "lpddr"]
        kinds = {"capacity": "", "static": "static", "draft": "draft", "experts": "experts", "kv": "kv"}
        held[sharers] = {
            what: sum(s.value for s in samples if s.name.endswith("_bytes") and s.labels.get("kind", "") == kind)
            for what, kind in kinds.items()
        }
    one, four = held[1], held[4]
    assert four == pytest.approx({**one, "kv": 4 * one["kv"]}) and one["kv"] > 0 and one["experts"] > 0


def test_tiers_have_the_names_that_the_hardware_gives_them() -> None:
    metrics, registry = measured(0)
    spec = EMULATED._replace(system="stratum", hardware="stratum-s", model="olmoe-1b-7b", draft="")
    metrics.on_change(node(0))
    metrics.on_change(Node(1, spec, FIGURES, None, None, None, State.SERVING))
    for device in (0, 1):
        metrics.on_step(record(device=device, energy_j=(1.0, 2.0, 3.0, 4.0, 5.0)))

    def named(metric: str, label: str, device: int) -> dict[str, float]:
        samples = [sample for family in registry.collect() for sample in family.samples if sample.name == metric]
        return {s.labels[label]: s.value for s in samples if s.labels["device"] == str(device)}

    assert named("foreserve_tier_bytes_total", "tier", 0) == {"hb": 1e6, "lpddr": 2e6}
    assert named("foreserve_tier_bytes_total", "tier", 1) == {"mono3d": 1e6, "interposer": 2e6}
    assert named("foreserve_energy_joules_total", "component", 0) == dict(compute=1, lpddr=2, hb=3, comm=4, static=5)
    assert named("foreserve_energy_joules_total", "component", 1) == dict(
        compute=1, interposer=2, mono3d=3, comm=4, static=5
    )
    capacities = named("foreserve_tier_capacity_bytes", "tier", 1)
    assert capacities == {"mono3d": 32 * 2**30, "interposer": 0}
    assert set(named("foreserve_tier_used_bytes", "tier", 1)) == {"mono3d"}


def test_a_device_that_is_gone_has_no_power_and_keeps_its_counters() -> None:
    metrics, registry = measured(devices=2)
    metrics.on_step(record(device=1))
    metrics.on_change(node(1, State.GONE))
    metrics.on_step(record(device=1))
    assert metrics.devices.hardware.keys() == metrics.devices.models.keys() == {0}
    assert registry.get_sample_value("foreserve_power_watts", {"device": "1"}) is None
    assert registry.get_sample_value("foreserve_busy_seconds_total", {"device": "1"}) == 0.02
    assert registry.get_sample_value("foreserve_tier_capacity_bytes", {"device": "1", "tier": "hb"}) == 0
    names = "num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason", "kv_cache_usage_perc"
    levels = {f"vllm:{name}" for name in (*names, "cache_config_info")}
    there = {(s.name, s.labels["engine"]) for f in registry.collect() if f.name in levels for s in f.samples}
    assert there == {(name, "0") for name in levels}
    assert metrics.recent_load.of_all().keys() == {0}
    assert registry.get_sample_value("vllm:generation_tokens_total", {"model_name": "m", "engine": "1"}) == 0


def test_idle_joules_are_those_of_the_condition_in_which_they_were_drawn_until_the_device_is_gone() -> None:
    clock = Clock()
    metrics, registry = measured(devices=2, clock=clock)
    half = EMULATED.in_condition(Condition(hb_share=0.5))
    smaller = half.device_limits(half.load())
    assert smaller.static_w < 0.9 * IDLE_W
    clock.until(2.0)
    metrics.on_change(dataclasses.replace(node(1), spec=half, device_limits=smaller))
    clock.until(5.0)
    metrics.on_change(dataclasses.replace(node(1, State.GONE), spec=half, device_limits=smaller))
    clock.until(9.0)
    drawn_j = registry.get_sample_value("foreserve_idle_energy_joules_total", {"device": "1"})
    assert drawn_j == pytest.approx(2 * IDLE_W + 3 * smaller.static_w)


def test_looking_at_a_device_that_works_does_not_make_it_idle() -> None:
    clock, request = Clock(), flight()
    metrics, _ = measured(clock=clock)
    metrics.on_begin(request)
    for at_s in (0.1, 0.2, 0.3):  # within its first step, of which nobody knows yet
        clock.until(at_s)
        assert metrics.energy_j(0) == 0
    metrics.on_step(record(start_s=0.05, latency_s=0.3))
    assert metrics.energy_j(0) == pytest.approx(0.05 * IDLE_W + 0.05)
    finish(metrics, request, "stop")
    clock.until(1.35)
    assert metrics.energy_j(0) == pytest.approx(1.05 * IDLE_W + 0.05)


def test_what_worked_before_a_stall_or_a_pause_is_no_longer_seen_by_meters() -> None:
    clock = Clock()
    metrics, _ = measured(clock=clock)
    request, devices = flight(), metrics.devices
    metrics.on_begin(request)
    metrics.on_step(record(latency_s=1.0))
    clock.until(1.5)
    assert devices.busy_share(0) == pytest.approx(1)
    metrics.on_fault(0, "stall", True)
    for at_s, begins in ((4.0, True), (5.0, False)):  # In the end its next step is under way.
        clock.until(at_s)
        if not begins:
            metrics.on_fault(0, "stall", False)
        assert devices.busy_share(0) == 0 and devices.power_w(0) == pytest.approx(IDLE_W)
    metrics.on_step(record(start_s=5.0, latency_s=0.25))
    assert devices.busy_share(0) == pytest.approx(0.25)
    finish(metrics, request, "stop")
    clock.until(9.0)
    metrics.energy_j(0)
    metrics.on_begin(flight())
    clock.until(9.5)
    assert devices.busy_share(0) == 0


def test_a_tier_that_was_throttled_a_moment_ago_is_no_more_than_all_in_use() -> None:
    metrics, _ = measured()
    metrics.on_begin(flight())
    used_bytes = 0.8 * EMULATED.load().device.ext.bytes_per_s
    metrics.on_step(record(latency_s=1.0, traffic_bytes=(0.0, used_bytes)))
    assert metrics.devices.ext_share(0) == pytest.approx(0.8)
    slow = EMULATED.in_condition(Condition(ext_share=0.4))
    metrics.on_change(dataclasses.replace(node(0), spec=slow, device_limits=slow.device_limits(slow.load())))
    assert metrics.devices.ext_share(0) == 1


def test_a_lost_device_draws_and_holds_nothing_until_it_is_back() -> None:
    clock = Clock()
    metrics, registry = measured(devices=2, clock=clock)
    clock.until(1.0)
    metrics.on_change(node(1, State.LOST))
    clock.until(3.0)
    assert metrics.energy_j(1) == pytest.approx(IDLE_W)
    assert registry.get_sample_value("foreserve_power_watts", {"device": "1"}) == 0
    held = {"device": "1", "tier": "hb", "kind": "experts"}
    assert registry.get_sample_value("foreserve_tier_used_bytes", held) == 0
    metrics.on_change(node(1))
    clock.until(4.0)
    assert metrics.energy_j(1) == pytest.approx(2 * IDLE_W)
    assert (registry.get_sample_value("foreserve_tier_used_bytes", held) or 0) > 0

"""Does a step on a GPU that offloads experts obey the laws of physics and arithmetic?"""

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from device_model.condition import Condition
from device_model.experts.locality_laws import Experts, PassTokens
from device_model.load import load_device, load_model, trace_experts
from device_model.specs.hardware_file import load_hardware
from device_model.specs.kinds import gpu as gpu_kind
from device_model.specs.spec import Contradiction, DeviceError
from device_model.step import DraftShape, StepPlan
from device_model.systems import gpu, offload
from tests.device_model.synthetic_routes import synthetic_routes, zipf_popularity
from tests.examples import examples

NEARLY = 1 - 1e-9
MODELS = ("olmoe-1b-7b", "qwen3-30b-a3b", "mixtral-8x7b", "qwen2.5-1.5b")
contexts = st.integers(0, 2000)
sequences = st.tuples(st.one_of(st.just(1), st.integers(2, 1024)), contexts)
batches = st.lists(sequences, min_size=1, max_size=8)
gibs = st.floats(7, 40)


def with_figures(model="olmoe-1b-7b", **figures):
    hardware = dataclasses.replace(load_hardware("a100-8gb"), **figures)
    return offload.Device(offload.Device.setup_of(model, hardware, load_model(model)))


DEVICES = {model: with_figures(model) for model in MODELS}
devices = st.sampled_from(list(DEVICES.values()))


def cost(device, batch, **more):
    return device.probe(StepPlan.of(*batch), **more).first


@given(devices, batches, sequences)
def test_a_larger_batch_is_never_faster(device, batch, another):
    assert cost(device, batch).latency_s <= cost(device, [*batch, another]).latency_s / NEARLY


@given(devices, batches, st.integers(1, 2000))
def test_a_longer_context_is_never_faster_nor_finds_more_experts(device, batch, more):
    longer = [(batch[0][0], batch[0][1] + more), *batch[1:]]
    before, after = cost(device, batch), cost(device, longer)
    assert before.latency_s <= after.latency_s / NEARLY
    assert after.expert_lookups == before.expert_lookups and after.expert_hits <= before.expert_hits / NEARLY


@examples(40)
@given(batches, gibs, gibs)
def test_more_memory_is_never_slower_and_fetches_no_more(batch, one, another):
    small, large = (cost(with_figures(hbm_capacity_gib=gib), batch) for gib in sorted((one, another)))
    assert large.latency_s <= small.latency_s / NEARLY
    assert large.traffic.ext_bytes <= small.traffic.ext_bytes / NEARLY


@given(devices, batches, st.floats(1e9, 1e11), st.floats(1, 100))
def test_a_faster_link_is_never_slower_and_moves_the_same_bytes(device, batch, granted, times):
    slow, fast = (cost(device, batch, ext_bytes_per_s=rate) for rate in (granted, granted * times))
    assert fast.latency_s <= slow.latency_s / NEARLY
    assert fast.traffic == slow.traffic


@examples(40)
@given(batches)
def test_with_room_for_all_experts_it_is_as_fast_as_a_gpu(batch):
    """Of the same figures: nothing is fetched, and all else is the same."""
    roomy = with_figures(hbm_capacity_gib=80)
    hardware = roomy.setup.hardware
    shared = (
        "calibration",
        "hbm_capacity_gib",
        "hbm_gb_per_s",
        "fp16_tflops",
        "tdp_w",
        "idle_power_share",
        "host_gb_per_s",
    )
    figures = {name: getattr(hardware, name) for name in shared}
    whole = gpu_kind.Hardware(gpus=1, decode_power_share=hardware.busy_power_share, **figures)
    device = gpu.Device(gpu.Device.setup_of("olmoe-1b-7b", whole, load_model("olmoe-1b-7b")))
    step = cost(roomy, batch)
    assert step.latency_s == pytest.approx(cost(device, batch).latency_s)
    assert step.traffic == pytest.approx(cost(device, batch).traffic)
    assert step.expert_hits == pytest.approx(step.expert_lookups)


@given(devices, batches)
def test_what_is_missing_crosses_the_link_once_and_is_written_and_read(device, batch):
    step, size = cost(device, batch), device.size
    missed = (step.expert_lookups - step.expert_hits) * size.expert_bytes
    kv = sum(context + 2 * new for new, context in batch) * size.kv_bytes_per_token
    assert step.traffic.ext_bytes == pytest.approx(missed)
    read = size.static_read_bytes + kv + step.expert_lookups * size.expert_bytes
    assert step.traffic.hb_bytes == pytest.approx(read + missed)
    assert step.latency_s >= missed / (32e9 * 0.78) * NEARLY


@given(devices, batches)
def test_joules_follow_from_bytes_computation_and_time(device, batch):
    step = cost(device, batch)
    assert step.energy.ext_j == pytest.approx(step.traffic.ext_bytes * 8 * 20e-12)
    assert step.energy.comm_j == pytest.approx(step.traffic.ext_bytes * 8 * 6e-12)
    # Beyond its 60 W, the board draws 180 while memory or compute is at the rate that it reaches.
    assert step.energy.static_j == pytest.approx(step.latency_s * 60)
    alone_j = 180 * step.traffic.hb_bytes / (2039e9 * 0.601)
    assert step.energy.hb_j <= alone_j / NEARLY and alone_j * NEARLY <= step.energy.hb_j + step.energy.compute_j


@given(st.sampled_from(MODELS), batches, st.floats(0.15, 1.0), st.floats(0.1, 1.0), st.sampled_from([8, 80]))
@example("olmoe-1b-7b", [(1023, 0)], 0.9, 1.0, 80)
def test_the_board_never_draws_more_than_its_hardware_says(model, batch, busy, clock, gib):
    """A prompt may keep compute and memory at their rates at once."""
    step = cost(with_figures(model, busy_power_share=busy, clock_share=clock, hbm_capacity_gib=gib), batch)
    board_j = step.energy.static_j + step.energy.hb_j + step.energy.compute_j
    assert board_j <= busy * 400 * step.latency_s / NEARLY


@examples(50)
@given(devices, batches, st.integers(1, 300))
def test_a_probe_of_k_steps_is_k_probes_of_grown_plans(device, batch, steps):
    plan = StepPlan.of(*batch)
    last = StepPlan(plan.new_tokens, plan.context + (steps - 1) * plan.new_tokens)
    assert device.probe(plan, steps).table[-1] == pytest.approx(device.probe(last).table[0])


@given(st.integers(0, 40_000))
def test_memory_holds_what_there_is_room_for(tokens):
    device = DEVICES["olmoe-1b-7b"]
    used = device.placement.used(min(tokens, device.kv_capacity_tokens))
    in_hbm = sum(bytes_ for (tier, _), bytes_ in used.items() if tier == "hb")
    assert in_hbm == pytest.approx(device.hb.capacity_bytes)
    assert used["ext", "experts"] == device.size.experts_bytes
    assert used["hb", "experts"] >= 8 * device.size.expert_bytes * NEARLY


def test_half_of_the_experts_of_olmoe_find_room_as_m2r2_says():
    device = DEVICES["olmoe-1b-7b"]
    assert int(device.placement.slots(0.0)) // 16 == 32


@given(st.integers(1, 64))
def test_a_model_whose_locality_was_fitted_finds_as_much_as_by_that(sequences):
    """The law that an xPU's cache has."""
    device, setup = DEVICES["qwen3-30b-a3b"], load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b").setup
    step = cost(device, [(1, 100)] * sequences)
    experts = Experts(setup.model.experts, setup.model.top_k, setup.locality, setup.speculation)
    held = device.placement.slots(sequences * 101 * device.size.kv_bytes_per_token) / device.size.experts
    found = experts.hits(held, PassTokens(sequences, 1))
    assert step.expert_hits / step.expert_lookups == pytest.approx(found) and found > 1.5 * held


def test_a_dense_model_has_nothing_to_fetch():
    step = cost(DEVICES["qwen2.5-1.5b"], [(1, 100)])
    assert step.traffic.ext_bytes == step.expert_lookups == 0


def test_a_step_waits_for_the_link_and_draws_little_meanwhile():
    few, roomy = cost(DEVICES["olmoe-1b-7b"], [(1, 100)]), cost(with_figures(hbm_capacity_gib=80), [(1, 100)])
    assert few.latency_s > 5 * roomy.latency_s
    assert 60 < few.power_w < 0.6 * roomy.power_w < 240


def test_actual_routes_are_cached_by_lru():
    device = with_figures()
    trace_experts(device)
    plan = StepPlan.of((1, 100))
    draw = np.random.default_rng(1)
    routes = synthetic_routes(zipf_popularity(16, 64, 0.8, draw), 1, 8, repeat=0.0, draw=draw)
    routed = dataclasses.replace(plan, routes=routes)
    first = device.probe(routed).first
    device.commit(routed)
    again = device.probe(routed).first
    assert (first.expert_hits, first.expert_lookups, again.expert_hits) == (0, 128, 128)
    assert again.traffic.ext_bytes == 0 and again.latency_s < first.latency_s
    with pytest.raises(ValueError, match="The plan has no routes"):
        device.probe(plan)
    with pytest.raises(DeviceError, match="serving a model with experts"):
        trace_experts(with_figures("qwen2.5-1.5b"))
    with pytest.raises(ValueError, match="keeps no experts by their use"):
        load_device("auto", "a6000", "olmoe-1b-7b").commit(plan)


def test_a_capped_clock_slows_prompts_down_and_costs_no_more_a_mac():
    whole, capped = (
        load_device("auto", "a100-8gb", "olmoe-1b-7b", condition=Condition(clock_share=s)) for s in (1.0, 0.1)
    )
    energy = [next(iter(dev.probe(StepPlan.of((4000, 0))))).energy for dev in (whole, capped)]
    assert energy[1].compute_j == pytest.approx(energy[0].compute_j)
    times = [next(iter(dev.probe(StepPlan.of((4000, 0))))).latency_s for dev in (whole, capped)]
    assert times[1] > 1.5 * times[0]


def test_what_it_can_t_do_is_said():
    with pytest.raises(DeviceError, match="a GPU loses no banks"):
        load_device("auto", "a100-8gb", "olmoe-1b-7b", condition=Condition(hb_share=0.5))
    with pytest.raises(
        DeviceError, match=r"experts take 90\.2 GB of the memory of the host, whose capacity allows at most 68"
    ):
        with_figures("mixtral-8x7b", host_capacity_gib=64.0)
    with pytest.raises(
        DeviceError, match=r"any token needs take 22\.5 GB of the memory of the GPU, whose .* at most 7\.5"
    ):
        load_device("auto", "a100-8gb", "llama-4-scout")
    with pytest.raises(ValueError, match="the GPU's memory holds those that are used"):
        DEVICES["olmoe-1b-7b"].probe(dataclasses.replace(StepPlan.of((1, 9)), placed=(1.0,)))
    with pytest.raises(ValueError, match="decodes plainly"):
        DEVICES["olmoe-1b-7b"].probe(StepPlan.of((1, 9), draft=DraftShape(2, 1, 2)))
    for key, value, said in (
        ("reserved_gib", 8.0, "less than hbm_capacity_gib, 8"),
        ("idle_power_share", 0.7, "at most busy_power_share, 0.6"),
    ):
        with pytest.raises(Contradiction, match=said):
            dataclasses.replace(load_hardware("a100-8gb"), **{key: value})


def test_bytes_move_between_the_tiers_at_the_rate_of_the_link():
    moved = DEVICES["olmoe-1b-7b"].transfer(25e9, 0.0)
    assert moved.latency_s == pytest.approx(25e9 / (32e9 * 0.78))
    assert np.isclose(moved.traffic.ext_bytes, 25e9)

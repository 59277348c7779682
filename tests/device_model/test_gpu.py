"""Does a step on GPUs obey the laws of physics and arithmetic?"""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.condition import Condition
from device_model.load import load_device, load_model
from device_model.specs.hardware_file import load_hardware
from device_model.specs.spec import Contradiction, DeviceError
from device_model.step import StepPlan
from device_model.systems import gpu
from device_model.work import StepWork

NEARLY = 1 - 1e-9
PAIRS = [("a6000", "olmoe-1b-7b"), ("2xh100", "mixtral-8x7b"), ("2xh100", "qwen2.5-32b"), ("4xh100", "llama-4-scout")]
DEVICES = [load_device("auto", *pair) for pair in PAIRS]
devices = st.sampled_from(DEVICES)
sequences = st.tuples(st.one_of(st.just(1), st.integers(2, 1024)), st.integers(0, 3000))
batches = st.lists(sequences, min_size=1, max_size=12)


def cost(device, batch):
    return device.probe(StepPlan.of(*batch)).first


@given(devices, batches, sequences)
def test_a_larger_batch_is_never_faster(device, batch, another):
    assert cost(device, batch).latency_s <= cost(device, [*batch, another]).latency_s / NEARLY


@given(devices, batches)
def test_all_bytes_are_read_from_one_tier_at_a_share_of_its_bandwidth(device, batch):
    step, size = cost(device, batch), device.size
    kv = sum(context + 2 * new for new, context in batch) * size.kv_bytes_per_token
    experts = step.expert_lookups * size.expert_bytes
    assert step.traffic == pytest.approx((size.static_read_bytes + experts + kv, 0.0))
    rate = device.hb.bytes_per_s * device.setup.calibration.bandwidth_share
    assert step.latency_s >= step.traffic.hb_bytes / rate * NEARLY
    assert step.energy.static_j == pytest.approx(step.latency_s * device.working_w)
    assert step.energy_j == pytest.approx(step.energy.static_j + step.energy.compute_j)


@given(devices, batches)
def test_boards_draw_what_they_do_to_decode_and_up_to_their_tdp_for_prompts(device, batch):
    hardware = device.setup.hardware
    tdp_w = hardware.gpus * hardware.tdp_w
    assert hardware.decode_power_share * tdp_w < cost(device, batch).power_w <= tdp_w / NEARLY
    prompts = cost(device, [(2000, 0)] * 8)
    assert prompts.power_w > 0.8 * tdp_w


@given(devices, batches, st.integers(1, 300))
def test_a_probe_of_k_steps_is_k_probes_of_grown_plans(device, batch, steps):
    plan = StepPlan.of(*batch)
    last = StepPlan(plan.new_tokens, plan.context + (steps - 1) * plan.new_tokens)
    assert device.probe(plan, steps).table[-1] == pytest.approx(device.probe(last).table[0])


def test_a_lone_gpu_sums_up_nothing():
    names = [[group[0].name for group in device.explain(StepPlan.of((1, 9)))[0].groups] for device in DEVICES]
    assert ["all-reduce" in parts for parts in names] == [False, True, True, True]
    assert "experts" not in names[2]


def test_kernels_of_a_layer_take_their_time_whatever_the_batch():
    device = DEVICES[0]
    hurried = dataclasses.replace(device.setup.calibration, kernel_us=0.0)
    without = gpu.Device(dataclasses.replace(device.setup, calibration=hurried))
    for batch in ([(1, 9)], [(1, 9)] * 64):
        waited_s = cost(device, batch).latency_s - cost(without, batch).latency_s
        assert waited_s == pytest.approx(16 * (6 + 9) * device.setup.calibration.kernel_us * 1e-6)


@pytest.mark.parametrize(
    ("new_tokens", "figures"), [(1, ("pass_us", "layer_us")), (600, ("eager_pass_us", "eager_layer_us"))]
)
def test_a_measured_pass_takes_a_time_of_its_own_and_one_by_layer(new_tokens, figures):
    measured = dataclasses.replace(load_hardware("a6000"), bandwidth_share=1.0, compute_share=1.0)

    def took_s(model, **microseconds):
        setup = gpu.Device.setup_of(model, dataclasses.replace(measured, **microseconds), load_model(model))
        return cost(gpu.Device(setup), [(new_tokens, 0)]).latency_s

    # So much that where no CUDA graph holds the pass nothing else shows.
    of_pass, of_layer = figures
    by_pass = [took_s(model, **{of_pass: 1e6}) for model in ("olmoe-1b-7b", "gpt-oss-20b")]
    both = [took_s(model, **{of_pass: 1e6, of_layer: 1e5}) for model in ("olmoe-1b-7b", "gpt-oss-20b")]
    assert [more - less for more, less in zip(both, by_pass, strict=True)] == pytest.approx([1.6, 2.4])
    bare = 0.0 if of_pass == "eager_pass_us" else took_s("olmoe-1b-7b")
    assert by_pass[0] == pytest.approx(1.0 + bare)


def test_a_gpu_has_no_banks_to_lose_and_no_tiers_to_place_experts_in():
    with pytest.raises(DeviceError, match="a GPU loses no banks"):
        load_device("auto", "a6000", "olmoe-1b-7b", condition=Condition(hb_share=0.5))
    with pytest.raises(DeviceError, match=r"ext_share is 0\.5; a GPU reads nothing from its host"):
        load_device("auto", "a6000", "olmoe-1b-7b", condition=Condition(ext_share=0.5))
    with pytest.raises(ValueError, match="all memory of a GPU is equally fast"):
        DEVICES[0].probe(dataclasses.replace(StepPlan.of((1, 9)), placed=(1.0,)))
    capped = load_device("auto", "a6000", "olmoe-1b-7b", condition=Condition(clock_share=0.5))
    assert cost(capped, [(2000, 0)]).latency_s > cost(DEVICES[0], [(2000, 0)]).latency_s
    assert cost(capped, [(2000, 0)]).energy.compute_j == pytest.approx(cost(DEVICES[0], [(2000, 0)]).energy.compute_j)


@pytest.mark.parametrize(
    ("model", "gpus", "copies"),
    [("deepseek-v2-lite", 4, 4), ("deepseek-v2-lite", 2, 2), ("qwen2.5-1.5b", 4, 2), ("qwen3-30b-a3b", 4, 1)],
)
def test_gpus_hold_what_they_cannot_share_out_each(model: str, gpus: int, copies: int) -> None:
    """MLA's latents are of all heads; two KV heads are four GPUs' pairwise."""
    one, several = (load_device("auto", name, model, None) for name in ("h100", "2xh100" if gpus == 2 else "4xh100"))
    assert several.kv_bytes_per_token == copies * one.kv_bytes_per_token
    size, work = several.size, StepWork.of(StepPlan.of(*[(1, 30_000)] * 8), 1)
    attention = several.explain(StepPlan.of(*[(1, 30_000)] * 8))[0].groups[1][0]
    assert attention.hb_bytes == pytest.approx(copies * size.kv_traffic_bytes(work))


def test_a_model_that_does_not_fit_is_refused():
    with pytest.raises(
        DeviceError,
        match=r"take 93\.4 GB of the memory of the GPUs \(the engine takes 90% of it\), .* at most 46\.4 GB",
    ):
        load_device("auto", "a6000", "mixtral-8x7b")


def test_several_gpus_need_a_link():
    with pytest.raises(Contradiction, match="link_gb_per_s: allowed is a number above 0 with more than one GPU"):
        dataclasses.replace(load_hardware("a6000"), gpus=2)


def test_a_model_of_another_paper_can_be_served_too():
    assert (
        load_device("auto", "2xh100", "qwen3-30b-a3b").kv_capacity_tokens
        > load_model("qwen3-30b-a3b").max_context_tokens
    )

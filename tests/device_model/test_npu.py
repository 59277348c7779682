"""Does a step on an NPU obey the laws of physics and arithmetic?"""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.condition import Condition
from device_model.load import load_device, load_model
from device_model.specs.hardware_file import load_hardware
from device_model.specs.spec import DeviceError
from device_model.step import DraftShape, StepPlan
from device_model.systems import npu
from device_model.work import StepWork
from tests.examples import examples

NEARLY = 1 - 1e-9
DEVICES = [load_device("auto", "npu-64t", model) for model in ("olmoe-1b-7b", "mixtral-8x7b", "qwen2.5-32b")]
devices = st.sampled_from(DEVICES)
sequences = st.tuples(st.one_of(st.just(1), st.integers(2, 4096)), st.integers(0, 3000))
batches = st.lists(sequences, min_size=1, max_size=8)


def cost(device, batch):
    return device.probe(StepPlan.of(*batch)).first


def with_figures(model="olmoe-1b-7b", **figures):
    hardware = dataclasses.replace(load_hardware("npu-64t"), **figures)
    return npu.Device(npu.Device.setup_of(model, hardware, load_model(model)))


@given(devices, batches, sequences)
def test_a_larger_batch_is_never_faster(device, batch, another):
    assert cost(device, batch).latency_s <= cost(device, [*batch, another]).latency_s / NEARLY


@given(devices, batches)
def test_a_step_takes_at_least_each_resource_s_time_and_at_most_their_sum(device, batch):
    step, hardware = cost(device, batch), device.setup.hardware
    dram_s = step.traffic.hb_bytes / (273e9 * 0.99)
    compute_s = step.energy.compute_j / hardware.j_per_mac / (32e12 * hardware.compute_share)
    through_s = 2 * step.traffic.hb_bytes / 1.024e12
    assert max(dram_s, compute_s, through_s) * NEARLY <= step.latency_s <= (dram_s + compute_s + through_s) / NEARLY


@given(devices, batches)
def test_joules_follow_from_bytes_computation_and_time(device, batch):
    step = cost(device, batch)
    assert step.traffic.ext_bytes == step.energy.ext_j == 0
    assert step.energy.hb_j == pytest.approx(step.traffic.hb_bytes * 8 * 3.88e-12)
    # Scratchpad and DMA at their whole bandwidth, 1,024 bytes in a ns, draw 1.996 W.
    assert step.energy.comm_j == pytest.approx(2 * step.traffic.hb_bytes * 0.9 * 1.996 / 1.024e12)
    assert step.energy.static_j == pytest.approx(step.latency_s * (0.1 * 15.246 + 128 * 0.017 + 0.9 * 0.80))
    die_w = step.power_w - (step.energy.hb_j / step.latency_s) - 128 * 0.017
    assert die_w <= 12.45 + 0.80 + 1.98 + 0.016 + 1e-9  # Table V


@given(devices, st.lists(st.tuples(st.just(1), st.integers(0, 3000)), min_size=1, max_size=32))
def test_weights_are_read_once_where_inputs_fit_into_the_scratchpad(device, batch):
    step, size = cost(device, batch), device.size
    kv = sum(context + 2 for _, context in batch) * size.kv_bytes_per_token
    assert step.traffic.hb_bytes == pytest.approx(size.static_read_bytes + step.expert_lookups * size.expert_bytes + kv)


@given(st.integers(2, 6000))
def test_a_prompt_reads_the_weights_again_for_each_block_of_tokens_that_fits(tokens):
    device = DEVICES[2]  # without experts
    size, block = device.size, int(4.5e6 // (5120 * 2))
    head = size.weights.table * 2
    body = (size.static_read_bytes - head) * -(-tokens // block)
    assert device.block_tokens == block == 439
    kv = (2 * tokens + (-(-tokens // block) - 1) * tokens / 2) * size.kv_bytes_per_token
    assert cost(device, [(tokens, 0)]).traffic.hb_bytes == pytest.approx(body + head + kv)


def test_each_block_of_a_prompt_reads_the_keys_and_values_before_it():
    """Of three blocks of 400 tokens behind 1,000 the second reads 1,400 again, and the third 1,800."""
    device = DEVICES[2]
    groups = device.explain(StepPlan.of((1200, 1000), (1, 50)))[0].groups
    attention = next(part for (part,) in groups if part.name == "attention")
    once = 1000 + 2 * 1200 + 50 + 2
    assert attention.hb_bytes == pytest.approx((once + 1400 + 1800) * device.size.kv_bytes_per_token)


def test_a_block_reads_no_more_again_than_its_window():
    """Half of GPT-OSS's layers see 128 tokens, and a block is of 781."""
    device = load_device("auto", "npu-64t", "gpt-oss-20b")
    groups = device.explain(StepPlan.of((1562, 1000)))[0].groups
    attention = next(part for (part,) in groups if part.name == "attention")
    once = device.size.kv_traffic_bytes(StepWork.of(StepPlan.of((1562, 1000)), 1))
    assert attention.hb_bytes - once == pytest.approx((1781 + 128) / 2 * device.size.kv_bytes_per_token)


@examples(50)
@given(devices, batches, st.integers(1, 300))
def test_a_probe_of_k_steps_is_k_probes_of_grown_plans(device, batch, steps):
    plan = StepPlan.of(*batch)
    last = StepPlan(plan.new_tokens, plan.context + (steps - 1) * plan.new_tokens)
    assert device.probe(plan, steps).table[-1] == pytest.approx(device.probe(last).table[0])


@examples(40)
@given(batches, st.floats(1, 20))
def test_a_larger_scratchpad_reads_no_more_and_is_never_slower(batch, times):
    small, large = (cost(with_figures(scratchpad_mb=mb), batch) for mb in (1.0, 1.0 * times))
    assert large.traffic.hb_bytes <= small.traffic.hb_bytes / NEARLY
    assert large.latency_s <= small.latency_s / NEARLY


def test_its_array_and_its_dram_balance_at_what_cassandra_says():
    hardware = load_hardware("npu-64t")
    # 234 operations a byte (Cassandra, VI-A), and all parts of Table V at work.
    assert hardware.fp16_tflops * 1e12 / (hardware.dram_gb_per_s * 1e9) == pytest.approx(234, abs=0.5)
    decoding, prompt = DEVICES[0].explain(StepPlan.of((1, 9)))[0], DEVICES[0].explain(StepPlan.of((2000, 0)))[0]
    assert [group[0].bound() for group in decoding.groups] == ["HB"] * 3
    assert prompt.groups[0][0].bound() == "compute"


def test_a_slower_clock_slows_the_array_down_and_costs_no_more_a_mac():
    whole, capped = (
        load_device("auto", "npu-64t", "olmoe-1b-7b", condition=Condition(clock_share=s)) for s in (1.0, 0.5)
    )
    for batch in ([(1, 9)], [(2000, 0)]):
        assert cost(capped, batch).energy.compute_j == pytest.approx(cost(whole, batch).energy.compute_j)
        assert cost(capped, batch).energy.comm_j == pytest.approx(cost(whole, batch).energy.comm_j)
    assert cost(capped, [(2000, 0)]).latency_s > 1.5 * cost(whole, [(2000, 0)]).latency_s
    # It leaks at any clock; what the vector unit draws beyond that falls with it.
    assert capped.static_w == whole.static_w
    assert capped.working_w - capped.static_w == pytest.approx(0.5 * (whole.working_w - whole.static_w))


def test_what_an_npu_can_t_do_is_said():
    with pytest.raises(DeviceError, match="an NPU loses no banks"):
        load_device("auto", "npu-64t", "olmoe-1b-7b", condition=Condition(hb_share=0.5))
    with pytest.raises(DeviceError, match=r"ext_share is 0\.5; an NPU reads nothing from its host"):
        load_device("auto", "npu-64t", "olmoe-1b-7b", condition=Condition(ext_share=0.5))
    with pytest.raises(DeviceError, match=r"215\.5 GB of the memory of the NPU, whose capacity allows at most 137\.4"):
        load_device("auto", "npu-64t", "llama-4-scout")
    with pytest.raises(ValueError, match="all memory of an NPU is equally fast"):
        DEVICES[0].probe(dataclasses.replace(StepPlan.of((1, 9)), placed=(1.0,)))
    with pytest.raises(ValueError, match="decodes plainly"):
        DEVICES[0].probe(StepPlan.of((1, 9), draft=DraftShape(2, 1, 2)))
    with pytest.raises(ValueError, match="nothing moves between tiers"):
        DEVICES[0].transfer(1.0, 0.0)

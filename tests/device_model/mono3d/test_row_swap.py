"""Does a swap cost what its rows take to open, there as much as back?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_device
from device_model.specs.spec import DeviceError
from device_model.step import StepPlan
from tests.device_model.mono3d.devices import near, usage_of

DEVICES = {name: near(name) for name in ("olmoe-1b-7b", "mixtral-8x7b", "llama-4-scout")}
for name, device in DEVICES.items():
    device.know_topics(usage_of(name))
FLAT = near("olmoe-1b-7b", "flat")
FLAT.know_topics(usage_of("olmoe-1b-7b"))
devices = st.sampled_from(list(DEVICES.values()))
mixes = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(tuple)


def plan(mix):
    return StepPlan(np.array([1]), np.array([100]), placed=mix)


@given(devices, mixes, mixes)
def test_there_and_back_costs_twice_one(device, one, another):
    there, back = device.swap(plan(another), one), device.swap(plan(one), another)
    assert there == pytest.approx(back)
    both = device.swapped(there).plus(device.swapped(back))
    assert both.latency_s == pytest.approx(2 * there.seconds)
    assert both.energy_j == pytest.approx(2 * device.swap_cost(plan(another), one).energy_j)


@given(devices, mixes)
def test_the_same_mix_costs_nothing(device, mix):
    assert device.swap(plan(mix), mix) == (0, 0, 0, 0)


@given(devices, mixes, mixes)
def test_joules_are_those_of_the_bytes_and_seconds_those_of_the_rows(device, one, another):
    swap, hardware = device.swap(plan(another), one), device.setup.hardware
    rows = swap.experts * device.layout.expert_rows
    assert swap.bytes == pytest.approx(2 * rows * hardware.row_bytes_of_all)
    assert swap.joules == pytest.approx(swap.bytes * 8 * 0.429e-12)
    fastest_s, slowest_s = device.times.trc_ns[[0, -1]] * 1e-9
    assert 2 * rows * fastest_s <= swap.seconds * (1 + 1e-9) and swap.seconds <= 2 * rows * slowest_s * (1 + 1e-9)
    cost = device.swapped(swap)
    assert cost.energy.hb_j == swap.joules
    assert cost.energy.static_j == pytest.approx(swap.seconds * (device.working_w + device.near_w))
    assert sum(cost.seconds) == cost.latency_s and sum(cost.stage_energy) == pytest.approx(cost.energy_j)


@given(mixes, mixes)
def test_without_tiers_there_is_nothing_to_swap(one, another):
    assert FLAT.swap(plan(another), one) == FLAT.expected_swap() == (0, 0, 0, 0)


def test_two_experts_that_trade_places_open_the_rows_of_both_twice():
    device = DEVICES["mixtral-8x7b"]
    slots, count = device.slots(), device.size.experts
    before = np.arange(count)
    after = before.copy()
    after[[0, count - 1]] = count - 1, 0
    swap = slots.swap(before, after)
    assert swap.experts == 2
    assert swap.seconds == pytest.approx(device.layout.expert_rows * 2 * (slots.trc_ns[0] + slots.trc_ns[-1]) * 1e-9)


def test_what_is_expected_of_unrelated_topics_is_what_shuffled_experts_need():
    device = DEVICES["olmoe-1b-7b"]
    slots, count = device.slots(), device.size.experts
    draws = np.random.default_rng(1)
    counted = [slots.swap(draws.permutation(count), draws.permutation(count)) for _ in range(200)]
    expected = slots.expected_swap(kept_share=0.0)
    assert np.mean([swap.experts for swap in counted]) == pytest.approx(expected.experts, rel=0.01)
    assert np.mean([swap.seconds for swap in counted]) == pytest.approx(expected.seconds, rel=0.01)
    assert slots.expected_swap(kept_share=0.25).seconds == pytest.approx(0.75 * expected.seconds)


def test_without_experts_there_is_nothing_to_swap():
    dense = near("qwen2.5-32b")
    with pytest.raises(DeviceError, match="the model has none"):
        dense.expected_swap()
    with pytest.raises(DeviceError, match="the model has none"):
        dense.know_topics(usage_of("mixtral-8x7b"))


def test_without_a_table_of_topics_nothing_can_be_placed():
    device = load_device("stratum", "stratum-l", "mixtral-8x7b")
    for ask in (lambda: device.probe(plan((1.0,))), lambda: device.swap(plan((1.0,)), None)):
        with pytest.raises(ValueError, match="the device knows no topics: give it a table"):
            ask()

"""What does it cost to move bytes between the tiers, and how much of a KV cache does each of them take?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.step import StepPlan
from tests.device_model.speculating import AT_1K, batches, cost, device, devices, shapes
from tests.device_model.test_device_laws import flat

NEARLY = 1 - 1e-9
PLAIN = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
XPU = device("xpu", "elmoe3d-8gb", "qwen3-30b-a3b", "eagle")
with_hb = devices.filter(lambda d: d.hb.capacity_bytes > 0)
amounts = st.integers(0, 10**10).map(float)
rates = st.one_of(st.none(), st.floats(1e9, 1e13))


def everything(step):
    return np.array([*flat(step), *step.seconds, *step.stage_energy])


@given(with_hb, amounts, amounts, rates)
def test_a_transfer_takes_as_long_as_its_slower_tier(dev, to_hb, to_ext, rate):
    took = dev.transfer(to_hb, to_ext, rate)
    ext_rate = min(dev.ext_bytes_per_s if rate is None else rate, 128e9)  # the streamline's 128 GB/s
    moved = to_hb + to_ext
    assert took.latency_s == pytest.approx(max(moved / ext_rate, moved / dev.hb.bytes_per_s))
    assert took.traffic == (moved, moved)


@given(with_hb, amounts, amounts)
def test_its_joules_are_those_of_both_tiers_the_streamline_and_its_time(dev, to_hb, to_ext):
    took, moved = dev.transfer(to_hb, to_ext), to_hb + to_ext
    assert took.energy.hb_j == pytest.approx(moved * 8 * 0.43e-12)
    assert took.energy.ext_j == pytest.approx(moved * 8 * 3.88e-12)
    assert took.energy.comm_j == pytest.approx(moved * 8 * 0.4e-12)
    assert took.energy.compute_j == 0
    hw = dev.setup.hardware
    static_w = dev.setup.estimate.static_w(hw.pe_count, hw.hb_capacity_gib + hw.ext_capacity_gib)
    assert took.energy.static_j == pytest.approx(took.latency_s * static_w)
    assert took.expert_lookups == took.expert_hits == 0
    assert sum(took.seconds) == pytest.approx(took.latency_s) and sum(took.stage_energy) == pytest.approx(took.energy_j)


@given(with_hb, amounts, amounts, rates)
def test_two_transfers_cost_what_one_of_all_bytes_does(dev, first, second, rate):
    apart = dev.transfer(first, 0.0, rate).plus(dev.transfer(second, 0.0, rate))
    np.testing.assert_allclose(everything(apart), everything(dev.transfer(first + second, 0.0, rate)), rtol=1e-9)


@given(devices, batches, batches, shapes)
def test_steps_one_after_the_other_add_up_in_every_part(dev, one, other, shape):
    first, second = cost(dev, one, shape), cost(dev, other)
    both = first.plus(second)
    np.testing.assert_array_equal(everything(both), everything(first) + everything(second))
    assert both == second.plus(first)
    assert both.energy_j == pytest.approx(first.energy_j + second.energy_j)


@given(batches)
def test_nothing_moved_costs_nothing(batch):
    for dev in (PLAIN, XPU):
        step = cost(dev, batch)
        assert step.plus(dev.transfer(0.0, 0.0)) == step


def test_without_hb_nothing_moves():
    with pytest.raises(ValueError, match="The device has no HB; nothing moves between its tiers"):
        XPU.transfer(1.0, 0.0)


@pytest.mark.parametrize("moved", [(-1.0, 0.0), (0.0, -1.0), (float("nan"), 0.0)])
def test_bytes_that_mean_nothing_are_refused(moved):
    with pytest.raises(ValueError, match="what moves is 0 or more"):
        PLAIN.transfer(*moved)


def test_a_bandwidth_that_means_nothing_is_refused():
    with pytest.raises(ValueError, match="needs a bandwidth above 0"):
        PLAIN.transfer(1.0, 0.0, 0.0)


# --- the room for keys and values ---


@given(devices)
def test_what_hb_takes_of_the_kv_cache_leaves_no_room_for_experts(dev):
    tokens, per_token = dev.kv_capacity_in_hb_tokens, dev.kv_bytes_per_token
    assert 0 <= tokens <= dev.kv_capacity_tokens
    full, over = (dev.placement.at((tokens + more) * per_token) for more in (0, 1))
    assert full.ext_kv_bytes == 0 and full.hb_expert_bytes < per_token / NEARLY
    assert over.ext_kv_bytes > 0


@given(devices, st.integers(1, 8))
def test_sharers_of_an_external_tier_fill_it_together_and_no_more(dev, sharers):
    each, per_token = dev.kv_capacity_among(sharers), dev.kv_bytes_per_token
    assert dev.kv_capacity_in_hb_tokens <= each <= dev.kv_capacity_tokens
    full, over = (dev.placement.at((each + more) * per_token) for more in (0, 1))
    weights = full.ext_static_bytes + full.ext_expert_bytes + dev.placement.draft_ext_bytes
    assert weights + sharers * full.ext_kv_bytes <= dev.ext.capacity_bytes / NEARLY
    assert weights + sharers * over.ext_kv_bytes > dev.ext.capacity_bytes * NEARLY
    assert dev.kv_capacity_among(1) == dev.kv_capacity_tokens


def test_a_token_of_a_draft_with_a_kv_cache_of_its_own_takes_both():
    small = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "slm")
    assert PLAIN.kv_bytes_per_token == 49_152
    assert small.kv_bytes_per_token == 49_152 + 28 * 2 * 2 * 128  # Qwen2.5-1.5B: layers, K and V, heads, INT8
    for dev in (small, PLAIN):
        free = 2**33 - dev.size.static_bytes - dev.draft.weights_bytes if dev.draft else 2**33 - dev.size.static_bytes
        assert dev.kv_capacity_in_hb_tokens == free // dev.kv_bytes_per_token


def test_an_external_tier_that_nobody_has_is_refused():
    with pytest.raises(ValueError, match="sharers is 0; an external tier has at least 1 device"):
        PLAIN.kv_capacity_among(0)


def test_spilling_and_fetching_a_sequence_costs_its_bytes_twice():
    """1,000 tokens of 49,152 bytes at LPDDR's 101.376 GB/s, there and back."""
    moved = 1000 * PLAIN.kv_bytes_per_token
    there_and_back = PLAIN.transfer(0.0, moved).plus(PLAIN.transfer(moved, 0.0))
    assert there_and_back.latency_s == pytest.approx(2 * 49.152e6 / 101.376e9)
    assert there_and_back.latency_s < PLAIN.probe(StepPlan.of((1000, 0))).latency_s[0]
    assert cost(PLAIN, [AT_1K]).plus(there_and_back).traffic.ext_bytes > 2 * moved

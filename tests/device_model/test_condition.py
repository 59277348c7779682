"""Does hardware in a worse condition do what the paper makes of its parts, and never better?"""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.acceptance import acceptance_of, batch_plan
from device_model.condition import HEALTHY, Condition
from device_model.load import load_device
from device_model.specs.hardware_file import load_hardware
from device_model.specs.spec import DeviceError
from device_model.step import StepPlan
from tests.device_model.speculating import AT_1K, SCHEMES, batches, cost, models, parts, shapes, stages

NEARLY = 1 - 1e-9
CHUNK = (2048, 0)
shares = st.sampled_from([0.03125, 0.1, 0.25, 0.5, 0.75, 0.8, 0.96875, 1.0])
conditions = st.builds(Condition, shares, shares, shares)
without_hb = st.builds(Condition, ext_share=shares, clock_share=shares)
separate = st.sampled_from([None, "eagle", "slm"])


@cache
def device(system="elmoe3d", hw="elmoe3d-8gb", model="qwen3-30b-a3b", draft=None, condition=HEALTHY):
    return load_device(system, hw, model, draft, condition)


def worse(condition, other):
    """Of two conditions the worse in every part."""
    return Condition(*(min(getattr(c, name) for c in (condition, other)) for name in Condition.__slots__))


@given(models, separate, batches, shapes, conditions, conditions)
def test_a_worse_condition_never_makes_a_step_faster(model, draft, batch, shape, condition, other):
    tree = shape if draft else None
    better, less = (device(model=model, draft=draft, condition=c) for c in (condition, worse(condition, other)))
    assert cost(less, batch, tree).latency_s >= cost(better, batch, tree).latency_s * NEARLY


@given(models, st.sampled_from(SCHEMES["elmoe3d"]), batches, shapes, without_hb, without_hb)
def test_nor_one_that_leaves_hb_alone_whatever_the_draft(model, draft, batch, shape, condition, other):
    """With its banks a pool loses experts to draft with, and few are soon read: passes may be faster, and worse."""
    better, less = (device(model=model, draft=draft, condition=c) for c in (condition, worse(condition, other)))
    assert cost(less, batch, shape).latency_s >= cost(better, batch, shape).latency_s * NEARLY


@given(st.sampled_from(["xpu", "pim", "logicpim", "nmp"]), batches, without_hb, without_hb)
def test_nor_on_a_system_without_hb(system, batch, condition, other):
    better, less = (device(system, condition=c) for c in (condition, worse(condition, other)))
    assert cost(less, batch).latency_s >= cost(better, batch).latency_s * NEARLY


@given(batches, conditions)
def test_energy_follows_from_what_is_moved_and_from_the_banks_that_are_on(batch, condition):
    """Bytes and MACs cost what they did; less leaks where banks are off, for as much longer as a step takes."""
    dev = device(condition=condition)
    step = cost(dev, batch)
    assert step.energy.hb_j == pytest.approx(step.traffic.hb_bytes * 8 * 0.43e-12)
    assert step.energy.ext_j == pytest.approx(step.traffic.ext_bytes * 8 * 3.88e-12)
    assert step.energy.compute_j == pytest.approx(cost(device(), batch).energy.compute_j)
    banks = int(condition.hb_share * 32 + 1e-9)
    watts = 0.026 * banks + 0.017 * (64 + 8 * banks / 32)
    assert step.energy.static_j / step.latency_s == pytest.approx(watts)


@given(batches, shapes, st.sampled_from([(s, d) for s, ds in SCHEMES.items() for d in ds]))
def test_healthy_hardware_is_the_hardware_of_the_specs(batch, shape, pair):
    plain = load_device(pair[0], "elmoe3d-8gb", "glm-4.7-flash", pair[1])
    healthy = device(pair[0], "elmoe3d-8gb", "glm-4.7-flash", pair[1])
    assert healthy.setup == plain.setup and cost(healthy, batch, shape) == cost(plain, batch, shape)
    assert HEALTHY.of(plain.setup.hardware) is plain.setup.hardware


@given(models, st.sampled_from([None, *SCHEMES["elmoe3d"]]), batches, shapes)
def test_half_of_the_banks_of_8_gb_are_the_4_gb_configuration(model, draft, batch, shape):
    half = device(model=model, draft=draft, condition=Condition(hb_share=0.5))
    small = device(hw="elmoe3d-4gb", model=model, draft=draft)
    assert half.setup.hardware == small.setup.hardware
    tree = shape if draft else None
    assert cost(half, batch, tree) == cost(small, batch, tree)
    assert half.kv_capacity_tokens == small.kv_capacity_tokens


def test_a_pool_on_fewer_banks_has_fewer_drafts_accepted():
    rates = [
        acceptance_of(device(draft="elastic", condition=Condition(hb_share=share)), batch_plan(4)).alpha
        for share in (1.0, 0.75, 0.5, 0.25)
    ]
    assert rates == sorted(rates, reverse=True) and rates[-1] < 0.5 * rates[0]


@pytest.mark.parametrize(("share", "banks"), [(0.99, 31), (0.5, 16), (0.05, 1), (1 / 32, 1)])
def test_a_bank_of_which_a_part_is_lost_is_lost(share, banks):
    left = Condition(hb_share=share).of(load_hardware("elmoe3d-8gb"))
    assert (left.pe_count, left.hb_capacity_gib) == (banks, banks * 0.25)
    assert left.hb_gb_per_s == pytest.approx(51.2 * banks)


def test_throttled_lpddr_delivers_its_share_and_costs_the_same_a_byte():
    slow, plain = device(condition=Condition(ext_share=0.25)), device()
    assert slow.ext_bytes_per_s == pytest.approx(plain.ext_bytes_per_s / 4)
    assert cost(slow, [AT_1K]).traffic == cost(plain, [AT_1K]).traffic
    assert cost(slow, [AT_1K]).energy[:4] == cost(plain, [AT_1K]).energy[:4]
    missed = [parts(stages(dev, [AT_1K])[0])["experts from EXT"] for dev in (plain, slow)]
    assert missed[1].times()[1] == pytest.approx(4 * missed[0].times()[1])


def test_compute_near_memory_is_throttled_with_its_lpddr():
    slow, plain = device("pim", condition=Condition(ext_share=0.5)), device("pim")
    assert cost(slow, [AT_1K]).latency_s > 1.9 * cost(plain, [AT_1K]).latency_s


def test_a_capped_clock_slows_prefill_and_leaves_a_step_bound_by_memory_alone():
    capped, plain = device(condition=Condition(clock_share=0.8)), device()
    assert cost(capped, [AT_1K]) == cost(plain, [AT_1K])
    times = [cost(dev, [CHUNK] * 8).latency_s for dev in (plain, capped)]
    assert 1.05 < times[1] / times[0] < 1 / 0.8


def test_below_79_percent_of_the_clock_the_streamline_holds_lpddr_up():
    """128 GB/s at the full clock, 64 at half of it, of LPDDR's 101.4."""
    half, plain = device("xpu", condition=Condition(clock_share=0.5)), device("xpu")
    assert cost(half, [AT_1K]).latency_s == pytest.approx(cost(plain, [AT_1K]).latency_s * 101.376 / 64)


@pytest.mark.parametrize(("clock", "gb_per_s"), [(1.0, 76.032), (0.75, 76.032), (0.5, 64.0)])
def test_beside_channels_of_compute_near_memory_the_streamline_holds_up_what_is_left_of_them(clock, gb_per_s):
    """Three quarters of LPDDR's 101.4 GB/s are the xPU's (NMP), which 128 GB/s of streamline carry at 60 % of the
    clock."""
    dev = device("nmp", condition=Condition(clock_share=clock))
    static = parts(stages(dev, [AT_1K])[0])["static weights"]
    assert static.unit.ext_bytes_per_s == pytest.approx(gb_per_s * 1e9)
    granted = dev.explain(StepPlan.of(AT_1K))
    assert granted[0].groups[0][0].unit == static.unit
    half = dev.unit_with(dev.ext_bytes_per_s / 2)
    assert half.ext_bytes_per_s == pytest.approx(76.032e9 / 2)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["ext_share", "hb_share", "clock_share"])
def test_a_share_that_means_nothing_is_refused(name, share):
    with pytest.raises(DeviceError, match=f"{name} is {share}; allowed is a number above 0 and at most 1."):
        Condition(**{name: share})


def test_no_bank_left_and_no_bank_to_lose_are_refused():
    with pytest.raises(DeviceError, match=r"hb_share is 0\.03; allowed is at least 0\.03125, one bank with its PE"):
        device(condition=Condition(hb_share=0.03))
    for system in ("xpu", "nmp"):
        with pytest.raises(DeviceError, match=f"the system '{system}' has no HB"):
            device(system, condition=Condition(hb_share=0.5))


def test_static_weights_that_find_no_bank_lie_in_ext():
    dev = device(condition=Condition(hb_share=0.125))
    assert dev.placement.hb_static_bytes == 2**30 and dev.placement.ext_static_bytes > 0.5e9
    step = next(iter(dev.probe(StepPlan.of(AT_1K))))
    assert step.expert_hits == 0 and step.latency_s > cost(device(hw="elmoe3d-4gb"), [AT_1K]).latency_s

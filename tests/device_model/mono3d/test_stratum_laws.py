"""Does a step on Stratum obey the laws of physics and arithmetic, whatever the batch?"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.condition import Condition
from device_model.load import load_device
from device_model.specs.spec import DeviceError
from device_model.step import DraftShape, StepPlan
from tests.device_model.mono3d.devices import SIZES, near
from tests.examples import examples

NEARLY = 1 - 1e-9
DEVICES = {name: near(name) for name in SIZES}
models = st.sampled_from(list(SIZES))
contexts = st.integers(0, 3000)
decoding = st.lists(st.tuples(st.just(1), contexts), min_size=1, max_size=24)
batches = st.lists(st.tuples(st.one_of(st.just(1), st.integers(2, 1024)), contexts), min_size=1, max_size=12)
RISING = st.lists(st.floats(1, 60), min_size=8, max_size=8).map(sorted).map(tuple)


def cost(device, batch, **more):
    return device.probe(StepPlan.of(*batch), **more).first


@given(models, decoding, RISING, st.integers(0, 7), st.floats(0.1, 1))
def test_a_faster_tier_never_makes_a_step_slower(model, batch, trcd_ns, tier, share):
    slower = near(model, trcd_ns=trcd_ns)
    faster_ns = [*trcd_ns]
    faster_ns[: tier + 1] = [min(each, trcd_ns[tier] * share) for each in trcd_ns[: tier + 1]]
    assert cost(near(model, trcd_ns=tuple(faster_ns)), batch).latency_s <= cost(slower, batch).latency_s / NEARLY


@given(models, decoding)
def test_no_tiers_are_all_at_the_slowest(model, batch):
    slowest = (DEVICES[model].setup.hardware.trcd_ns[-1],) * 8
    assert cost(near(model, "flat"), batch) == cost(near(model, trcd_ns=slowest), batch)
    assert cost(DEVICES[model], batch).latency_s <= cost(near(model, "flat"), batch).latency_s / NEARLY


@given(decoding)
def test_what_lies_evenly_takes_as_long_as_with_all_tiers_at_the_mean(batch):
    trcd_ns = DEVICES["qwen2.5-32b"].setup.hardware.trcd_ns
    even = near("qwen2.5-32b", trcd_ns=(sum(trcd_ns) / 8,) * 8)
    assert cost(even, batch).latency_s == pytest.approx(cost(DEVICES["qwen2.5-32b"], batch).latency_s)


@given(models, batches, st.integers(1, 4000))
def test_a_longer_context_is_never_faster(model, batch, more):
    longer = [(batch[0][0], batch[0][1] + more), *batch[1:]]
    assert cost(DEVICES[model], batch).latency_s <= cost(DEVICES[model], longer).latency_s / NEARLY


@given(models, decoding)
def test_joules_follow_from_activations_computation_and_time(model, batch):
    device, step = DEVICES[model], cost(DEVICES[model], batch)
    read_j = device.setup.hardware.read_j_per_byte
    # Weights open eight rows' worth of bytes for each that they read, or more where tiles are not full.
    assert read_j * step.traffic.hb_bytes * NEARLY <= step.energy.hb_j
    assert step.energy.static_j == pytest.approx(step.latency_s * (device.working_w + device.near_w))
    assert step.energy_j == pytest.approx(sum(step.stage_energy))
    assert device.static_w < device.working_w


@given(models, decoding)
def test_rows_are_opened_for_tiles_that_there_are_and_by_no_pe_without(model, batch):
    """Of Mixtral's experts on 96 PUs a third of these has ten columns of tiles, and the others nine."""
    step, read_j = cost(DEVICES[model], batch), DEVICES[model].setup.hardware.read_j_per_byte
    kv = sum(context + 2 for _, context in batch) * DEVICES[model].size.kv_bytes_per_token
    if not DEVICES[model].size.windowed:  # 8 rows' worth of bytes a tile of 512 bytes; keys and values are whole rows
        assert step.energy.hb_j == pytest.approx(read_j * (8 * (step.traffic.hb_bytes - kv) + kv))


@pytest.mark.parametrize(("model", "tiles"), [("mixtral-8x7b", 896 * 256), ("llama-4-scout", 512 * 320)])
def test_an_expert_opens_a_row_for_each_of_its_tiles(model, tiles):
    """Columns of tiles over PUs by rows of them over PEs, of three matrices of FP16."""
    device = DEVICES[model]
    groups = device.explain(StepPlan.of((1, 100)))[0].groups
    unit = next(part.unit for group in groups for part in group if part.name == "cold experts")
    opened_j = 3 * tiles * 4096 * device.setup.hardware.read_j_per_byte
    assert unit.hb_j_per_byte * device.size.expert_bytes == pytest.approx(opened_j)


@given(models)
def test_logic_dies_rest_while_the_xpu_computes_prompts(model):
    step = cost(DEVICES[model], [(512, 0)])
    assert step.energy.static_j == pytest.approx(step.latency_s * DEVICES[model].working_w)


@examples(20)
@given(models, decoding, st.sampled_from([8, 16, 64, 128]), st.sampled_from([256, 4096]))
def test_weights_come_no_faster_and_no_cheaper_than_rows_that_hold_them(model, batch, tile_edge, row_bytes):
    device = near(model, tile_edge=tile_edge, row_bytes=row_bytes)
    step, read_j = cost(device, batch), device.setup.hardware.read_j_per_byte
    assert step.latency_s >= step.traffic.hb_bytes / device.hb.bytes_per_s * NEARLY
    assert step.energy.hb_j >= step.traffic.hb_bytes * read_j * NEARLY


@given(models, decoding)
def test_each_weight_that_is_needed_is_read_once(model, batch):
    device, step = DEVICES[model], cost(DEVICES[model], batch)
    size, weights = device.size, device.size.weights
    static = (weights.body - weights.router + weights.table) * 2
    kv = sum(context + 2 for _, context in batch) * size.kv_bytes_per_token
    assert step.traffic.hb_bytes == pytest.approx(static + step.expert_lookups * size.expert_bytes + kv)


@given(models, st.integers(1, 300))
def test_expert_reads_are_at_least_those_of_one_token(model, batch):
    step, spec = cost(DEVICES[model], [(1, 10)] * batch), DEVICES[model].setup.model
    assert spec.top_k * spec.expert_layers * NEARLY <= step.expert_lookups <= spec.experts * spec.expert_layers
    assert 0 <= step.expert_hits <= spec.top_k * spec.expert_layers


@given(models, batches, st.integers(1, 300))
def test_a_probe_of_k_steps_is_k_probes_of_grown_plans(model, batch, steps):
    device, plan = DEVICES[model], StepPlan.of(*batch)
    together = device.probe(plan, steps)
    assert len(together) == steps
    for i in {0, steps // 2, steps - 1}:
        alone = device.probe(StepPlan(plan.new_tokens, plan.context + i * plan.new_tokens))
        np.testing.assert_allclose(together.table[i], alone.table[0], rtol=1e-9)


@given(models, decoding, st.integers(2, 2000))
def test_a_prompt_among_them_adds_its_own_time(model, batch, tokens):
    device = DEVICES[model]
    mixed = cost(device, [*batch, (tokens, 0)])
    assert mixed.latency_s == pytest.approx(cost(device, batch).latency_s + cost(device, [(tokens, 0)]).latency_s)


@given(models, st.integers(2, 2000))
def test_a_prompt_takes_at_least_its_weights_way_over_the_interposer(model, tokens):
    device = DEVICES[model]
    step = cost(device, [(tokens, 0)])
    assert step.traffic.hb_bytes == 0
    assert step.latency_s >= step.traffic.ext_bytes / device.ext_bytes_per_s * NEARLY
    assert cost(device, [(tokens, 0)], ext_bytes_per_s=device.ext_bytes_per_s / 2).latency_s >= step.latency_s * NEARLY


def test_a_batch_beyond_an_activation_s_cycles_computes_longer_than_it_reads():
    few, many = (cost(DEVICES["qwen2.5-32b"], [(1, 10)] * batch) for batch in (32, 128))
    assert many.latency_s > 2.5 * few.latency_s
    parts = {
        part.name: part
        for stage in DEVICES["qwen2.5-32b"].explain(StepPlan.of(*[(1, 10)] * 128))
        for (part, *_) in stage.groups
    }
    assert parts["MLP"].bound() == "compute"


def test_a_lone_latent_head_shows_its_softmax():
    device = load_device("stratum", "stratum-l", "deepseek-v2-lite")
    assert [len(group) for group in device.explain(StepPlan.of((1, 500)))[0].groups][-2:] == [1, 1]
    assert len(device.explain(StepPlan.of((1, 500), (1, 500)))[0].groups[-1]) == 2


def test_two_dies_exchange_sums_and_one_does_not():
    names = {
        model: [g[0].name for s in d.explain(StepPlan.of((1, 9))) for g in s.groups] for model, d in DEVICES.items()
    }
    assert [model for model, parts in names.items() if "bridge" in parts] == ["llama-4-scout"]


@pytest.mark.parametrize(
    ("condition", "share"),
    [(Condition(hb_share=0.5), 0.5), (Condition(hb_share=0.53), 0.5), (Condition(hb_share=0.9), 0.875)],
)
def test_lost_banks_take_their_rows_and_their_pes_along(condition, share):
    whole, left = (load_device("stratum", "stratum-l", "mixtral-8x7b", condition=c) for c in (Condition(), condition))
    assert left.hb.capacity_bytes == share * whole.hb.capacity_bytes
    assert left.probe(StepPlan.of((1, 9))).latency_s[0] > whole.probe(StepPlan.of((1, 9))).latency_s[0]


def test_a_slower_clock_and_interposer_make_prompts_and_large_batches_slower():
    whole = load_device("stratum", "stratum-s", "olmoe-1b-7b")
    slow = load_device("stratum", "stratum-s", "olmoe-1b-7b", condition=Condition(ext_share=0.5, clock_share=0.5))
    assert cost(slow, [(9, 0)]).latency_s > 1.9 * cost(whole, [(9, 0)]).latency_s
    assert cost(slow, [(1, 9)] * 128).latency_s > 1.25 * cost(whole, [(1, 9)] * 128).latency_s
    with pytest.raises(DeviceError, match="one bank of each channel"):
        load_device("stratum", "stratum-s", "olmoe-1b-7b", condition=Condition(hb_share=0.01))


def test_nothing_is_drafted_and_nothing_moves_between_tiers():
    device = DEVICES["mixtral-8x7b"]
    with pytest.raises(ValueError, match="decodes plainly"):
        device.probe(StepPlan.of((1, 9), draft=DraftShape(2, 1, 2)))
    with pytest.raises(ValueError, match="nothing moves between tiers"):
        device.transfer(1.0, 0.0)
    assert device.transfer(0.0, 0.0).latency_s == 0
    with pytest.raises(DeviceError, match="can't run the draft scheme 'elastic'; it has none"):
        load_device("stratum", "stratum-l", "mixtral-8x7b", "elastic")


def test_a_system_runs_on_hardware_of_its_kind_only():
    with pytest.raises(
        DeviceError, match=r"kind mono3d, and elmoe3d-8gb is of the kind hb-xpu; allowed are elmoe3d, hb_xpu,"
    ):
        load_device("stratum", "elmoe3d-8gb", "qwen3-30b-a3b")
    with pytest.raises(
        DeviceError, match=r"kind hb-xpu, and stratum-l is of the kind mono3d; allowed are stratum, or none: it"
    ):
        load_device("elmoe3d", "stratum-l", "qwen3-30b-a3b")


@pytest.mark.parametrize(
    "name",
    [
        "stratum-l-",
        "stratum-l-0",
        "stratum-l-7-flat",  # fewer layers than tiers
        "stratum-l-1025",
        "stratum-l-99999",
        f"stratum-l-{'9' * 5000}",
        "stratum-l-round",
        "stratum-l-256flat",
        "a6000-flat",
    ],
)
def test_a_variant_that_means_nothing_is_refused(name):
    with pytest.raises(DeviceError, match=f"There is no hardware {name!r}"):
        load_device("auto", name, "mixtral-8x7b")


def test_variants_may_be_combined():
    device = near("mixtral-8x7b", "256-flat")
    assert dataclasses.replace(device.setup.hardware, layers=1024, tiered=True) == near("mixtral-8x7b").setup.hardware

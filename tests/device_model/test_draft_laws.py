"""Do steps that speculate obey the laws, whatever the scheme, the model, the size of HB and the batch?"""

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from device_model.load import load_setup, make_device
from device_model.step import DraftShape, Energy, Seconds
from tests.device_model.never_faster import NEARLY, check_never_faster, check_never_slower
from tests.device_model.speculating import (
    AT_1K,
    MODELS,
    SCHEMES,
    SIZES,
    batches,
    cost,
    crowds,
    device,
    devices,
    hardware,
    held,
    mixed,
    models,
    pairs,
    parts,
    shapes,
    stages,
)

# Their KV cache leaves the pool fewer than top-k experts a layer, or hardly more: what squeezes it spares drafts MACs.
THROTTLED = [(1, 0), (1, 0), (1, 0), (1, 3789)] * 16
LONG = [(1, 0), (1, 0), (1, 0), (1, 5365)] * 16
NARROW = [(1, 0), (1, 0), (1, 0), (1, 713)] * 16
with_hb = devices.filter(lambda d: d.hb.capacity_bytes > 0)


@given(devices, batches, shapes)
def test_draft_target_and_update_are_the_whole_latency(dev, batch, shape):
    step = cost(dev, batch, shape)
    assert sum(step.seconds) == pytest.approx(step.latency_s, rel=1e-12)
    assert all(seconds >= 0 for seconds in step.seconds) and step.seconds.target_s > 0
    drafting = any(new == 1 for new, _ in batch)
    assert (step.seconds.draft_s > 0) == drafting


@given(devices, batches, shapes, st.integers(1, 8))
def test_a_deeper_draft_is_never_faster(dev, batch, shape, more):
    deeper = DraftShape(shape.depth + more, shape.width, shape.verify_tokens + more)
    shallow = dataclasses.replace(deeper, depth=shape.depth)
    assert cost(dev, batch, deeper).latency_s >= cost(dev, batch, shallow).latency_s * NEARLY


@given(devices, crowds, shapes)
def test_the_first_pass_drafts_from_one_token_and_all_others_from_a_level(dev, batch, shape):
    """Of trees with as many tokens, whose keys and values take as much room from the pool: no pass takes less than the
    one before it."""
    one, two, seven = (cost(dev, batch, DraftShape(depth, shape.width, 7 * shape.width)).seconds for depth in (1, 2, 7))
    level_s = two.draft_s - one.draft_s
    assert one.draft_s <= level_s / NEARLY
    assert level_s <= (seven.draft_s - one.draft_s) / 6 / NEARLY
    assert seven.target_s == pytest.approx(one.target_s)


@given(devices, crowds, shapes)
def test_a_pass_reads_keys_and_values_of_all_levels_before_its_own(dev, batch, shape):
    def read(depth):
        passes = stages(dev, batch, DraftShape(depth, shape.width, 7 * shape.width))[1]
        attention = parts(passes)[dev.draft.attention if dev.draft.kv_bytes_per_token else "attention"]
        return attention.hb_bytes + attention.ext_bytes

    each = dev.draft.kv_bytes_per_token or dev.size.kv_bytes_per_token
    # Passes 2 to 7 follow upon 0 to 5 such levels.
    assert read(7) - read(2) == pytest.approx(len(batch) * 2.5 * shape.width * each, rel=1e-6)


@given(devices, batches, shapes, st.integers(1, 30))
def test_a_wider_draft_is_never_faster(dev, batch, shape, more):
    wider = dataclasses.replace(shape, width=shape.width + more)
    assert cost(dev, batch, wider).latency_s >= cost(dev, batch, shape).latency_s * NEARLY


@given(devices, batches, shapes, st.integers(1, 50))
def test_more_verified_tokens_are_never_faster(dev, batch, shape, more):
    larger = dataclasses.replace(shape, verify_tokens=shape.verify_tokens + more)
    assert cost(dev, batch, larger).latency_s >= cost(dev, batch, shape).latency_s * NEARLY


@given(devices, batches, shapes, st.floats(1e9, 1e11), st.floats(1.0, 100.0))
def test_more_external_bandwidth_is_never_slower(dev, batch, shape, granted, times):
    slow = cost(dev, batch, shape, ext_bytes_per_s=granted)
    fast = cost(dev, batch, shape, ext_bytes_per_s=granted * times)
    assert fast.latency_s <= slow.latency_s / NEARLY
    assert fast.traffic == slow.traffic


@example(device("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b", "elastic"), [(1, 1040)] * 16, DraftShape(7, 28, 7), 0, 59)
@example(device("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b", "elastic"), [(2, 0), (1, 0)], DraftShape(9, 12, 9), 0, 1)
@example(device("elmoe3d", "elmoe3d-4gb", "gpt-oss-20b", "slm"), [(1, 127), (1, 1012), (1, 8000)], None, 0, 896)
@given(devices, batches, st.one_of(st.none(), shapes), st.integers(0, 7), st.integers(1, 8000))
def test_a_longer_context_is_never_faster_but_for_what_leaves_hb(dev, batch, shape, which, more):
    new, context = batch[which % len(batch)]
    longer = [*batch]
    longer[which % len(batch)] = (new, context + more)
    check_never_faster(dev, batch, longer, shape)


@example(("elmoe3d", "elastic"), "gpt-oss-20b", LONG, DraftShape(14, 19, 34))
@given(pairs, models, batches, st.one_of(st.none(), shapes))
def test_more_hybrid_bonded_memory_is_never_slower_but_for_a_larger_pool(pair, model, batch, shape):
    devs = [device(pair[0], f"elmoe3d-{gb}gb", model, pair[1]) for gb in SIZES]
    for less, more in pairwise(devs):
        check_never_slower(less, more, batch, shape)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("draft", SCHEMES["elmoe3d"])
def test_hybrid_bonded_memory_speeds_up_every_scheme(model, draft):
    for batch in ([AT_1K], [AT_1K] * 16):
        devs = [device("elmoe3d", f"elmoe3d-{gb}gb", model, draft) for gb in SIZES]
        times = [cost(dev, batch, dev.draft.shape).latency_s for dev in devs]
        assert times[0] > 1.02 * times[1] > 1.02**2 * times[2]


def test_writing_the_next_pool_takes_time_only_where_ext_outruns_hb():
    setup = load_setup("elmoe3d-8gb", "qwen3-30b-a3b")
    shipped = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic")
    fast = dataclasses.replace(setup.hardware, ext_gb_per_s=1e4, streamline_gb_per_s=1e5)
    outrun = make_device("elmoe3d", dataclasses.replace(setup, hardware=fast), "elastic")
    batch, shape = [AT_1K] * 4, shipped.draft.shape
    assert cost(shipped, batch, shape).seconds.update_s == 0
    step = cost(outrun, batch, shape)
    pool_s = held(shipped, batch).hb_expert_bytes / setup.hardware.hb.bytes_per_s
    assert 0 < step.seconds.update_s < pool_s
    assert sum(step.seconds) == pytest.approx(step.latency_s)


@given(with_hb, batches, shapes)
def test_joules_are_what_is_moved_and_drawn_times_its_price(dev, batch, shape):
    step = cost(dev, batch, shape)
    assert all(joules >= 0 for joules in step.energy) and step.energy_j == pytest.approx(sum(step.energy))
    assert step.energy.hb_j == pytest.approx(step.traffic.hb_bytes * 8 * 0.43e-12)
    assert step.energy.ext_j == pytest.approx(step.traffic.ext_bytes * 8 * 3.88e-12)
    assert step.energy.comm_j >= step.traffic.ext_bytes * 8 * 0.4e-12 * NEARLY
    hw = dev.setup.hardware
    static_w = dev.setup.estimate.static_w(hw.pe_count, hw.hb_capacity_gib + hw.ext_capacity_gib)
    assert step.energy.static_j == pytest.approx(step.latency_s * static_w)


@given(with_hb, crowds, shapes)
def test_stages_add_up_to_the_step(dev, batch, shape):
    step, totals = cost(dev, batch, shape), [stage.totals(max) for stage in stages(dev, batch, shape)]
    *drafting, target = stages(dev, batch, shape)
    assert {stage.name for stage in drafting} == {"draft"} and target.name == "target"
    assert sum(stage.repeats for stage in drafting) == shape.depth
    seconds = Seconds(sum(t.plain_s for t in totals[:-1]), totals[-1].plain_s, sum(t.exposed_s for t in totals))
    assert step.seconds == pytest.approx(seconds)
    assert step.traffic == pytest.approx([sum(getattr(t, key) for t in totals) for key in ("hb_bytes", "ext_bytes")])
    moved = [sum(getattr(t, key) for t in totals) for key in ("compute_j", "ext_j", "hb_j", "comm_j")]
    assert step.energy == pytest.approx(Energy(*moved, step.energy.static_j))


@pytest.mark.parametrize("draft", ["eagle", "slm", "quant"])
def test_where_there_is_no_hb_nothing_is_read_from_it(draft):
    dev = device("xpu", "elmoe3d-8gb", "qwen3-30b-a3b", draft)
    assert cost(dev, [AT_1K], dev.draft.shape).traffic.hb_bytes == 0


@given(devices, batches, shapes)
def test_expert_reads_are_those_of_one_pass_and_hits_are_among_them(dev, batch, shape):
    step, size = cost(dev, batch, shape), dev.size
    layers = size.experts / size.experts_per_layer
    assert layers * size.top_k * NEARLY <= step.expert_lookups <= size.experts / NEARLY
    assert 0 <= step.expert_hits <= step.expert_lookups / NEARLY


@example(("elmoe3d", "elastic"), "qwen3-30b-a3b", "elmoe3d-8gb", THROTTLED, (1505, 5973), DraftShape(14, 30, 64))
@example(("elmoe3d", "elastic"), "qwen3-30b-a3b", "elmoe3d-8gb", THROTTLED, (1, 7478), DraftShape(14, 30, 64))
@example(("elmoe3d", "elastic"), "qwen3-30b-a3b", "elmoe3d-4gb", NARROW, (1, 6483), DraftShape(14, 30, 14))
@given(pairs, models, hardware, crowds, mixed, shapes)
def test_another_sequence_never_makes_a_step_faster_but_for_what_leaves_hb(pair, model, hw, batch, another, shape):
    for tree in (None, shape):
        check_never_faster(device(pair[0], hw, model, pair[1]), batch, [*batch, another], tree)


def test_nor_does_a_prompt_of_deepseek_v2_lite():
    dev = device("elmoe3d", "elmoe3d-8gb", "deepseek-v2-lite")
    crowd = [(1, 0)] * 38
    assert cost(dev, [*crowd, (2, 0)]).latency_s >= cost(dev, crowd).latency_s * NEARLY

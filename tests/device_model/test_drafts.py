"""Does each draft scheme read what it says from where it says, and is what cannot speculate refused?"""

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from device_model.load import load_device, load_setup, make_device
from device_model.roofline import BOUNDS
from device_model.specs.spec import DeviceError
from device_model.step import DraftShape, StepPlan
from device_model.work import StepWork
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
    models,
    parts,
    shapes,
    stages,
)


@given(models, hardware, crowds, shapes)
def test_elastic_sd_drafts_without_ext_while_kv_and_static_weights_fit_hb(model, hw, batch, shape):
    dev = device("elmoe3d", hw, model, "elastic")
    assert dev.placement.ext_static_bytes == 0
    assume(held(dev, batch).ext_kv_bytes == 0)
    *drafting, verifying = (stage.totals(max) for stage in stages(dev, batch, shape))
    assert all(passes.ext_bytes == 0 and passes.hb_bytes > 0 for passes in drafting)
    assert verifying.ext_bytes > 0


def test_elastic_sd_drafts_with_ext_once_the_kv_cache_outgrows_hb():
    dev = device("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b", "elastic")
    drafting = stages(dev, [AT_1K] * 64, dev.draft.shape)[0]
    assert drafting.totals(max).ext_bytes > 0


@pytest.mark.parametrize("gb", SIZES)
@pytest.mark.parametrize("model", [name for name in MODELS if name != "gpt-oss-20b"])
def test_of_a_hit_hb_has_the_msb_slice_and_ext_the_lsb_slice(model, gb):
    dev = device("elmoe3d", f"elmoe3d-{gb}gb", model, "elastic")
    step = cost(dev, [AT_1K] * 4, dev.draft.shape)
    verify = parts(stages(dev, [AT_1K] * 4, dev.draft.shape)[-1])
    hits, misses = step.expert_hits, step.expert_lookups - step.expert_hits
    assert hits > 0.05 * step.expert_lookups
    weights = dev.size.weights.expert
    assert verify["experts"].hb_bytes == pytest.approx(hits * weights * 4.5 / 8)
    assert verify["experts from EXT"].ext_bytes == pytest.approx((hits * 4 + misses * 8.5) * weights / 8)
    assert verify["experts"].link_bytes > 0


@pytest.mark.parametrize("gb", SIZES)
def test_the_pool_of_slices_holds_more_experts_than_a_cache_of_whole_ones(gb):
    dev = device("elmoe3d", f"elmoe3d-{gb}gb", "qwen3-30b-a3b", "elastic")
    room = held(dev, [AT_1K])
    assert dev.draft.pool(dev, room) == pytest.approx(dev.size.expert_share(room.hb_expert_bytes) * 8.5 / 4.5)


@pytest.mark.parametrize("gb", SIZES)
def test_experts_of_four_bits_are_not_sliced(gb):
    dev = device("elmoe3d", f"elmoe3d-{gb}gb", "gpt-oss-20b", "elastic")
    step = cost(dev, [AT_1K], dev.draft.shape)
    verify = parts(stages(dev, [AT_1K], dev.draft.shape)[-1])
    assert verify["experts"].hb_bytes == pytest.approx(step.expert_hits * dev.size.expert_bytes)
    missed = (step.expert_lookups - step.expert_hits) * dev.size.expert_bytes
    assert verify["experts from EXT"].ext_bytes == pytest.approx(missed)
    assert verify["experts"].link_bytes == 0
    room = held(dev, [AT_1K])
    assert dev.draft.pool(dev, room) == pytest.approx(dev.size.expert_share(room.hb_expert_bytes))


@pytest.mark.parametrize("scheme", ["elastic", "quant"])
def test_static_weights_of_four_bits_are_drafted_with_as_they_are(scheme):
    setup = load_setup("elmoe3d-8gb", "qwen3-30b-a3b")
    narrow = dataclasses.replace(setup, model=dataclasses.replace(setup.model, static_weight_bits=4.0))
    dev = make_device("elmoe3d", narrow, scheme)
    *drafts, target = (stage.groups[0][0] for stage in dev.explain(StepPlan.of((1, 100), draft=dev.draft.shape)))
    assert target.name == "static weights"
    assert all((draft.name, draft.hb_bytes) == (target.name, target.hb_bytes) for draft in drafts)
    # Quant-SD's copies are of the experts alone.
    copies = dev.size.experts_bytes * 4.5 / 8.5 if scheme == "quant" else 0.0
    assert dev.placement.draft_ext_bytes == pytest.approx(copies)


@given(models, hardware, batches)
def test_plain_decoding_beside_elastic_sd_is_plain_decoding(model, hw, batch):
    assert cost(device("elmoe3d", hw, model, "elastic"), batch) == cost(device("elmoe3d", hw, model), batch)


@given(models, hardware, batches, shapes)
def test_a_random_pool_costs_what_a_hot_one_does(model, hw, batch, shape):
    random, elastic = (cost(device("elmoe3d", hw, model, draft), batch, shape) for draft in ("random", "elastic"))
    assert random == elastic


@given(hardware, st.sampled_from(MODELS[:3]), batches, st.one_of(st.none(), shapes))
def test_quant_sd_leaves_the_target_no_cached_expert(hw, model, batch, shape):
    step = cost(device("elmoe3d", hw, model, "quant"), batch, shape)
    assert step.expert_hits == 0 and step.expert_lookups > 0


@given(hardware, batches)
def test_but_for_gpt_oss_whose_experts_serve_draft_and_target(hw, batch):
    quant, none = device("elmoe3d", hw, "gpt-oss-20b", "quant"), device("elmoe3d", hw, "gpt-oss-20b")
    assert cost(quant, batch) == cost(none, batch)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gb", SIZES)
@pytest.mark.parametrize("draft", ["eagle", "slm"])
def test_weights_of_a_draft_take_room_from_the_experts(model, gb, draft):
    drafting, plain = (device("elmoe3d", f"elmoe3d-{gb}gb", model, name) for name in (draft, None))
    lost = plain.placement.at(0.0).hb_expert_bytes - drafting.placement.at(0.0).hb_expert_bytes
    assert lost == pytest.approx(drafting.draft.weights_bytes) and lost > 0.1e9
    assert cost(drafting, [AT_1K]).expert_hits < cost(plain, [AT_1K]).expert_hits
    assert cost(drafting, [AT_1K]).latency_s > cost(plain, [AT_1K]).latency_s
    assert drafting.kv_capacity_tokens < plain.kv_capacity_tokens


def test_the_small_model_keeps_a_kv_cache_that_takes_room_too():
    small, none = (device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", name) for name in ("slm", "elastic"))
    work = StepWork.of(StepPlan.of((1, 4095)), 1)
    lost = none.held(work).hb_expert_bytes - small.held(work).hb_expert_bytes
    per_token = 28 * 2 * 2 * 128  # Qwen2.5-1.5B: layers, K and V, heads, their size, INT8
    assert lost == pytest.approx(small.draft.weights_bytes + 4096 * per_token)


def test_an_eagle_head_keeps_and_reads_keys_and_values_of_one_layer_in_16_bits():
    head, none = (device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", name) for name in ("eagle", "elastic"))
    work = StepWork.of(StepPlan.of((1, 4095)), 1)
    per_token = 2 * 4 * 128 * 2  # K and V, KV heads, their size, BF16
    lost = none.held(work).hb_expert_bytes - head.held(work).hb_expert_bytes
    assert lost == pytest.approx(head.draft.weights_bytes + 4096 * per_token)
    attention = parts(stages(head, [(1, 4095)] * 4, DraftShape(1, 1, 1))[0])["EAGLE attention"]
    assert attention.hb_bytes == pytest.approx(4 * 4097 * per_token)  # one of each is written
    assert attention.unit.macs_per_s == pytest.approx(head.setup.hardware.macs_per_s / 4)


def test_a_pool_of_a_small_share_of_what_a_token_needs_serves_none():
    dev = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic")
    batch = [AT_1K] * 136  # 6.85 GB of the 6.95 GB that static weights leave
    pool = dev.draft.pool(dev, held(dev, batch))
    step = cost(dev, batch, dev.draft.shape)
    assert 0.005 < pool < dev.setup.speculation.least_share_of_top_k * 8 / 128
    assert step.expert_hits < 0.1 * pool * step.expert_lookups


def test_a_small_model_takes_as_much_as_table_3_says():
    """1.9 to 2.1 GB, by the experts that all targets lose under it (`drafts/slm`)."""
    assert 1.8e9 < device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "slm").draft.weights_bytes < 2.1e9


@pytest.mark.parametrize("system", ["elmoe3d", "hb_xpu", "xpu", "pim", "nmp"])
def test_an_eagle_head_has_a_mac_a_weight_and_token_each_four_products_of_8_bits(system):
    dev = device(system, "elmoe3d-8gb", "qwen3-30b-a3b", "eagle")
    head = parts(stages(dev, [AT_1K] * 4, DraftShape(2, 3, 3))[1])["EAGLE head"]
    assert head.macs == pytest.approx(4 * 3 * (head.hb_bytes + head.ext_bytes) / 2)
    assert head.unit.macs_per_s == pytest.approx(dev.setup.hardware.macs_per_s / 4)
    assert head.unit.j_per_mac == pytest.approx(dev.setup.estimate.j_per_mac * 4)


@pytest.mark.parametrize("scheme", ["elastic", "eagle", "quant", "random"])
@pytest.mark.parametrize("batch", [1, 4, 16])
def test_the_token_that_a_draft_follows_is_in_the_targets_pass(scheme, batch):
    """A chain of one is verified with it: two tokens of each sequence are computed and read, one more than plainly."""
    dev = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", scheme)
    target = stages(dev, [AT_1K] * batch, DraftShape(1, 1, 1))[-1]
    two = dev.size.static_macs(StepWork.of(StepPlan.of(*[AT_1K] * batch), 1).drafted(2, prefill=True))
    assert parts(target)["static weights"].macs == pytest.approx(two)


# --- plans ---


@given(devices, crowds, st.lists(st.tuples(st.integers(2, 2048), st.integers(0, 4000)), min_size=1, max_size=3), shapes)
def test_prompts_among_decoding_sequences_are_prefilled_while_the_others_speculate(dev, batch, prompts, shape):
    """The target's pass computes more. Drafting may compute less, as the prompts' keys and values squeeze its pool."""
    both, alone = cost(dev, batch + prompts, shape), cost(dev, batch, shape)
    passes = [stages(dev, plan, shape)[-1].totals(max) for plan in (batch + prompts, batch)]
    assert passes[0].compute_j > passes[1].compute_j
    assert both == cost(dev, prompts + batch, shape)
    # Drafts with a KV cache of their own read that too, of which prompts may drive a part out of HB.
    in_place = not dev.hb.capacity_bytes or not held(dev, batch + prompts).ext_kv_bytes
    if dev.draft.kv_bytes_per_token and in_place:
        assert both.seconds.draft_s == pytest.approx(alone.seconds.draft_s)


@given(devices, st.lists(st.tuples(st.integers(2, 2048), st.integers(0, 4000)), min_size=1, max_size=3), shapes)
def test_prompts_alone_have_nothing_to_speculate_on(dev, prompts, shape):
    assert cost(dev, prompts, shape) == cost(dev, prompts)


@pytest.mark.parametrize("system", SCHEMES)
def test_a_step_that_speculates_is_costed_alone(system):
    dev = device(system, "elmoe3d-4gb", "qwen3-30b-a3b", "eagle")
    with pytest.raises(ValueError, match="steps is 2; a plan with a draft is costed one step at a time"):
        dev.probe(StepPlan.of(AT_1K, draft=dev.draft.shape), 2)
    assert len(dev.probe(StepPlan.of(AT_1K), 2)) == 2


@pytest.mark.parametrize("system", SCHEMES)
def test_a_draft_is_refused_by_a_device_without(system):
    with pytest.raises(ValueError, match="The plan has a draft, and the device none; load it with one to speculate"):
        cost(device(system, "elmoe3d-4gb", "qwen3-30b-a3b"), [AT_1K], DraftShape(2, 2, 2))


@pytest.mark.parametrize(
    ("system", "draft", "can"),
    [
        ("xpu", "elastic", "eagle, slm, quant"),
        ("hb_xpu", "elastic", "eagle, slm, quant"),
        ("hb_xpu", "random", "eagle, slm, quant"),
        ("pim", "quant", "eagle, slm"),
        ("logicpim", "elastic", "eagle, slm"),
        ("nmp", "quant", "eagle, slm"),
    ],
)
def test_a_scheme_that_a_system_cannot_run_is_refused_with_those_it_can(system, draft, can):
    with pytest.raises(DeviceError) as caught:
        load_device(system, "elmoe3d-4gb", "qwen3-30b-a3b", draft)
    said = f"The system {system!r} can't run the draft scheme {draft!r}; those it can are {can}."
    assert str(caught.value) == said


@pytest.mark.parametrize("draft", ["medusa", "__init__", "../systems/xpu"])
def test_an_unknown_scheme_is_refused_with_those_that_exist(draft):
    with pytest.raises(DeviceError) as caught:
        load_device("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b", draft)
    assert str(caught.value).endswith("those that exist are eagle, elastic, quant, random, slm.")


# --- what an explanation says ---


@pytest.mark.parametrize(("system", "draft"), [(s, d) for s, drafts in SCHEMES.items() for d in drafts])
@pytest.mark.parametrize("model", MODELS)
def test_an_explanation_names_where_each_operator_runs_and_why_and_what_bounds_it(system, draft, model):
    dev = device(system, "elmoe3d-8gb", model, draft)
    *drafting, target = stages(dev, [AT_1K], dev.draft.shape)
    assert [(each.name, each.repeats) for each in drafting] == [("draft", 1), ("draft", dev.draft.shape.depth - 1)]
    assert (target.name, target.repeats) == ("target", 1)
    assert {"static weights", "attention", "experts"} <= set(parts(target))
    for stage in (*drafting, target):
        for part in parts(stage).values():
            assert part.unit.name == "xPU" and len(part.why) > 20
            assert part.times()[BOUNDS.index(part.bound())] == max(part.times())


def test_what_bounds_the_operators_of_elmoe_3d():
    dev = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic")
    *drafting, verifying = stages(dev, [AT_1K], dev.draft.shape)
    for passes in drafting:
        assert {part.bound() for part in parts(passes).values()} == {"HB"}
        assert "HB banks are bound to their PEs" in parts(passes)["experts in the pool"].why
    assert parts(verifying)["experts from EXT"].bound() == "EXT"
    prompt = parts(stages(dev, [(16384, 0)])[0])
    assert prompt["static weights"].bound() == prompt["attention"].bound() == "compute"


# --- PSUMs between the PEs ---


def linked(setup, times):
    """ELMoE-3D with links `times` as fast."""
    speed = setup.hardware.aggregation_link_gb_per_s * times
    hw = dataclasses.replace(setup.hardware, aggregation_link_gb_per_s=speed)
    return make_device("elmoe3d", dataclasses.replace(setup, hardware=hw), "elastic")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gb", SIZES)
@pytest.mark.parametrize("batch", [1, 4, 16])
def test_the_exchange_of_psums_is_hidden(model, gb, batch):
    setup = load_setup(f"elmoe3d-{gb}gb", model)
    as_shipped, free = (cost(dev, [AT_1K] * batch, dev.draft.shape) for dev in (linked(setup, 1), linked(setup, 1e9)))
    assert as_shipped.latency_s == free.latency_s


@pytest.mark.parametrize("model", [name for name in MODELS if name != "gpt-oss-20b"])
def test_with_links_a_thousand_times_slower_it_is_not(model):
    setup = load_setup("elmoe3d-8gb", model)
    slow, shipped = (linked(setup, times) for times in (1e-3, 1))
    batch, shape = [AT_1K] * 16, shipped.draft.shape
    assert cost(slow, batch, shape).latency_s > 1.5 * cost(shipped, batch, shape).latency_s
    assert parts(stages(slow, batch, shape)[-1])["experts"].bound() == "links"
    assert cost(slow, batch) == cost(shipped, batch)  # plain decoding sends none

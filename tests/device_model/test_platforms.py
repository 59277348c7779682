"""Do the baselines with compute near memory put each operator where it is done sooner, and pay for it?"""

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.condition import Condition
from device_model.load import load_device, make_device
from device_model.step import DraftShape, StepPlan
from device_model.validation.best_mode import best
from device_model.work import StepWork
from tests.device_model.speculating import parts as named

MODELS = ("qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b")
NEAR = ("pim", "logicpim", "nmp")
ALL_CHANNELS = ("pim", "logicpim")  # which leave them all to the xPU too
HARDWARE = "elmoe3d-8gb"
NEARLY = 1 - 1e-9
AT_1K = (1, 1024)

device = lru_cache(maxsize=None)(lambda system, model, draft=None: load_device(system, HARDWARE, model, draft))
models, systems = st.sampled_from(MODELS), st.sampled_from(NEAR)
contexts = st.integers(0, 8000)
crowds = st.builds(lambda n, context: [(1, context)] * n, st.integers(1, 64), contexts)
mixed = st.one_of(st.tuples(st.just(1), contexts), st.tuples(st.integers(1, 4096), contexts))
batches = st.one_of(crowds, st.lists(mixed, min_size=1, max_size=6))
shapes = st.builds(
    lambda d, w, more: DraftShape(d, w, d + more), st.integers(1, 12), st.integers(1, 30), st.integers(0, 40)
)


def cost(dev, batch, shape=None, **kwargs):
    return next(iter(dev.probe(StepPlan.of(*batch, draft=shape), **kwargs)))


def target(dev, batch, shape=None):
    """The operators of the target's pass, by name."""
    stage = dev.explain(StepPlan.of(*batch, draft=shape))[-1]
    return {part.name: part for group in stage.groups for part in group}


@pytest.mark.parametrize("system", NEAR)
@pytest.mark.parametrize("model", MODELS)
def test_few_tokens_meet_their_experts_near_memory_and_many_on_the_xpu(system, model):
    dev = device(system, model)
    few, many = target(dev, [AT_1K]), target(dev, [(4096, 0)])
    assert few["experts"].unit.name == system and "few tokens" in few["experts"].why
    if dev.setup.model.attention == "gqa":  # absorbed, that of mla has more to compute than pim can
        assert few["attention"].unit.name == system
    assert few["static weights"].unit.name == many["static weights"].unit.name == "xPU"
    if system == "nmp":  # whose processors take their share of anything
        assert many["other experts"].unit.name == "xPU"
        assert many["other experts"].macs > 2 * many["experts"].macs
    else:
        assert many["experts"].unit.name == "xPU" and "too many tokens" in many["experts"].why


@given(systems, models, batches)
def test_each_operator_runs_where_it_is_done_sooner(system, model, batch):
    dev = device(system, model)
    parts = target(dev, batch)
    for name, part in parts.items():
        if name in ("attention", "experts") and system in ALL_CHANNELS:
            other = dev._near if part.unit.name == "xPU" else target(dev, batch)["static weights"].unit
            assert max(part.times()) <= max(part._replace(unit=other).times()) / NEARLY


@given(systems, models, batches, st.one_of(st.none(), shapes))
def test_stages_are_the_whole_latency_and_every_component_draws_power(system, model, batch, shape):
    step = cost(device(system, model, "eagle"), batch, shape)
    assert sum(step.seconds) == pytest.approx(step.latency_s)
    assert step.energy.hb_j == step.traffic.hb_bytes == 0
    assert min(step.energy.compute_j, step.energy.ext_j, step.energy.comm_j, step.energy.static_j) > 0
    assert step.energy_j == pytest.approx(sum(step.energy))
    assert step.expert_hits == 0


@pytest.mark.parametrize("system", NEAR)
def test_a_byte_read_near_memory_costs_less_than_one_that_crosses_the_bus(system):
    near, xpu = (cost(device(name, "qwen3-30b-a3b"), [AT_1K]) for name in (system, "xpu"))
    assert near.energy.ext_j < xpu.energy.ext_j
    assert near.energy.comm_j < xpu.energy.comm_j


@given(systems, models, batches)
def test_lpddr_is_never_busier_than_always(system, model, batch):
    dev = device(system, model)
    parts, step = target(dev, batch).values(), cost(dev, batch)
    through_bus = sum(np.ravel(part.ext_bytes)[0] for part in parts if part.unit.name == "xPU")
    assert through_bus * NEARLY <= step.traffic.ext_bytes <= dev.ext_bytes_per_s * step.latency_s / NEARLY
    if any(part.unit.name != "xPU" for part in parts):
        assert through_bus < step.traffic.ext_bytes < sum(np.ravel(part.ext_bytes)[0] for part in parts)


@given(systems, models, batches, st.floats(0.05, 1.0), st.sampled_from([1.0, 0.5]))
def test_who_shares_lpddr_shares_the_compute_within(system, model, batch, share, clock):
    """Whatever its streamline carries."""
    dev = load_device(system, "elmoe3d-8gb", model, condition=Condition(clock_share=clock))
    whole, shared = (cost(dev, batch, ext_bytes_per_s=dev.ext_bytes_per_s * each) for each in (1.0, share))
    assert shared.traffic.ext_bytes <= dev.ext_bytes_per_s * share * shared.latency_s / NEARLY
    assert whole.latency_s * NEARLY <= shared.latency_s <= whole.latency_s / share / NEARLY
    if clock == 1.0 and all(part.bound() == "EXT" or part.unit.name != "xPU" for part in target(dev, batch).values()):
        assert shared.latency_s == pytest.approx(whole.latency_s / share)


@given(st.sampled_from(ALL_CHANNELS), models, batches, st.floats(1e9, 1.01e11))
def test_compute_near_memory_is_never_slower_than_the_xpu_alone(system, model, batch, granted):
    near, xpu = (cost(device(name, model), batch, ext_bytes_per_s=granted) for name in (system, "xpu"))
    assert near.latency_s <= xpu.latency_s / NEARLY


@pytest.mark.parametrize("system", ALL_CHANNELS)
@pytest.mark.parametrize("model", MODELS)
def test_of_a_long_prompt_its_xpu_computes_at_the_rate_and_the_price_that_it_has_alone(system, model):
    beside, alone = (cost(device(each, model), [(16_384, 0)]) for each in (system, "xpu"))
    assert beside.latency_s <= alone.latency_s / NEARLY
    assert beside.energy.compute_j == pytest.approx(alone.energy.compute_j, rel=0.01)


@given(st.sampled_from(ALL_CHANNELS), models, crowds, shapes, st.sampled_from(["eagle", "slm"]))
def test_nor_does_it_verify_slower(system, model, batch, shape, draft):
    near, xpu = (cost(device(name, model, draft), batch, shape) for name in (system, "xpu"))
    assert near.seconds.target_s <= xpu.seconds.target_s / NEARLY


@pytest.mark.parametrize("system", ALL_CHANNELS)
@pytest.mark.parametrize("draft", ["eagle", "slm"])
def test_nor_does_it_draft_slower(system, draft):
    near, xpu = (device(name, "qwen3-30b-a3b", draft) for name in (system, "xpu"))
    assert cost(near, [AT_1K], near.draft.shape).seconds.draft_s <= cost(xpu, [AT_1K], near.draft.shape).seconds.draft_s


@pytest.mark.parametrize("model", MODELS)
def test_a_draft_pass_reads_its_weights_from_lpddr(model):
    dev = device("pim", model, "eagle")
    *drafting, _ = dev.explain(StepPlan.of(AT_1K, draft=dev.draft.shape))
    read = dev.draft.weights_bytes * dev.setup.speculation.eagle_read_share
    heads = sum(passes.repeats * named(passes)["EAGLE head"].ext_bytes for passes in drafting)
    assert heads == pytest.approx(read * dev.draft.shape.depth)


@given(systems, models, batches, mixed)
def test_a_larger_batch_is_never_faster(system, model, batch, another):
    dev = device(system, model)
    assert cost(dev, [*batch, another]).latency_s >= cost(dev, batch).latency_s * NEARLY


@given(systems, models, batches, st.integers(1, 4000))
def test_longer_contexts_are_never_faster(system, model, batch, more):
    dev = device(system, model)
    assert cost(dev, [(n, c + more) for n, c in batch]).latency_s >= cost(dev, batch).latency_s * NEARLY


@given(st.sampled_from(ALL_CHANNELS), models, batches, st.floats(1e9, 5e10), st.floats(1.0, 2.0))
def test_more_external_bandwidth_is_never_slower(system, model, batch, granted, times):
    dev = device(system, model)
    slow, fast = (cost(dev, batch, ext_bytes_per_s=rate).latency_s for rate in (granted, granted * times))
    assert fast <= slow / NEARLY


@pytest.mark.parametrize("model", MODELS[:2])
def test_nor_where_near_memory_holds_a_part_of_the_experts(model):
    dev = device("nmp", model)
    times = [cost(dev, [(1470, 0)], ext_bytes_per_s=gb * 1e9).latency_s for gb in (80, 90, 95, 101)]
    assert all(fast <= slow / NEARLY for slow, fast in pairwise(times))


@given(models, batches)
def test_processors_with_channels_of_their_own_and_the_xpu_are_done_at_once(model, batch):
    """But for what has no room there, which keeps the xPU longer."""
    parts = target(device("nmp", model), batch)
    for name in ("attention", "experts"):
        near, xpu = parts[name], parts[f"other {name}"]
        assert (near.unit.name, xpu.unit.name) == ("nmp", "xPU")
        assert max(near.times()) <= max(xpu.times()) / NEARLY
        if name == "attention":  # of the batches here all has room
            assert max(near.times()) == pytest.approx(max(xpu.times()))


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "glm-4.7-flash"])
def test_of_larger_models_a_part_of_the_experts_lies_near_memory(model):
    dev = device("nmp", model)
    parts = target(dev, [AT_1K])
    near, others = parts["experts"], parts["other experts"]
    share = (16 * 2**30 - 1025 * dev.size.kv_bytes_per_token) / dev.size.experts_bytes
    assert near.ext_bytes / (near.ext_bytes + others.ext_bytes) == pytest.approx(share)
    assert near.macs / (near.macs + others.macs) == pytest.approx(share)


@pytest.mark.parametrize("model", MODELS)
def test_nmp_is_ahead_of_pim_where_its_two_channels_hold_all_experts_and_nowhere_else(model):
    """ELMoE-3D, 7.2: "xPU-PIM performs well for Qwen3 and GLM, while xPU-NMP is strongest for DS2 and GPT-OSS", of
    which alone 16 GB hold all. With popular experts near memory NMP would be ahead for Qwen3, at each of these batches.
    """
    setup = device("nmp", model).setup
    pim, nmp = (np.mean([best(system, setup, batch).seconds for batch in (1, 4, 8, 16)]) for system in ("pim", "nmp"))
    assert (nmp < pim) == (device("nmp", model).size.experts_bytes < 16 * 2**30)


def near_share(dev, name, batch):
    """The share of an operator that is done near memory."""
    parts = target(dev, batch)
    return parts[name].ext_bytes / (parts[name].ext_bytes + parts[f"other {name}"].ext_bytes)


@given(models, st.integers(1, 64), st.integers(1, 30_000))
def test_near_memory_processors_hold_no_more_than_they_have(model, sequences, context):
    dev, batch = device("nmp", model), [(1, context)] * sequences
    held = dev.size.kv_held_bytes(StepWork.of(StepPlan.of(*batch), 1))
    experts = near_share(dev, "experts", batch) * dev.size.experts_bytes
    assert near_share(dev, "attention", batch) * held + experts <= 16 * 2**30 / NEARLY


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "glm-4.7-flash"])
def test_the_kv_cache_takes_the_place_of_experts_near_memory(model):
    dev = device("nmp", model)
    few, more = ([(1, context)] * 4 for context in (1_000, 30_000))
    grown = 4 * 29_000 * dev.size.kv_bytes_per_token
    lost = near_share(dev, "experts", few) - near_share(dev, "experts", more)
    assert lost * dev.size.experts_bytes == pytest.approx(grown)


def test_a_kv_cache_beyond_near_memory_leaves_no_room_for_experts():
    dev, batch = device("nmp", "qwen3-30b-a3b"), [(1, 15_000)] * 64
    assert near_share(dev, "experts", batch) == 0
    held = 64 * 15_001 * dev.size.kv_bytes_per_token
    assert near_share(dev, "attention", batch) * held == pytest.approx(16 * 2**30)


def test_keys_and_values_of_16_bits_take_four_products_of_8():
    """Attention alone is compared: OLMoE's cache in 16 bits beside the same in 8."""
    for system in ("elmoe3d", "xpu", "pim"):
        olmoe = device(system, "olmoe-1b-7b")
        narrow = make_device(system, replace(olmoe.setup, model=replace(olmoe.setup.model, kv_bits=8)))
        wide, thin = (target(each, [(1, 4000)] * 4)["attention"] for each in (olmoe, narrow))
        assert wide.macs == thin.macs
        assert wide.unit.macs_per_s == pytest.approx(thin.unit.macs_per_s / 4)
        assert wide.unit.j_per_mac == pytest.approx(thin.unit.j_per_mac * 4)


def test_weights_of_16_bits_take_four_products_of_8_and_integers_with_scales_one():
    for system in ("elmoe3d", "xpu", "pim"):
        olmoe = device(system, "olmoe-1b-7b")
        model = replace(olmoe.setup.model, static_weight_bits=8.5, expert_weight_bits=8.5)
        narrow = make_device(system, replace(olmoe.setup, model=model))
        wide, thin = (target(each, [(512, 0)]) for each in (olmoe, narrow))
        for name in ("static weights", "experts"):
            assert wide[name].unit.macs_per_s == pytest.approx(thin[name].unit.macs_per_s / 4)
            assert wide[name].unit.j_per_mac == pytest.approx(thin[name].unit.j_per_mac * 4)


@pytest.mark.parametrize("system", ALL_CHANNELS)
def test_memory_with_compute_inside_holds_every_model(system):
    assert all("other experts" not in target(device(system, model), [AT_1K]) for model in MODELS)


def test_two_of_eight_channels_are_not_the_xpu_s():
    unit = {system: target(device(system, "gpt-oss-20b"), [AT_1K])["static weights"].unit for system in NEAR}
    assert unit["nmp"].ext_bytes_per_s == pytest.approx(0.75 * unit["pim"].ext_bytes_per_s)


@pytest.mark.parametrize("model", MODELS)
def test_decoding_one_sequence_on_the_xpu_is_bytes_over_bandwidth(model):
    """Static weights but the embedding, top-k experts of each layer, the KV cache and what is added to it."""
    dev = device("xpu", model)
    size = dev.size
    tokens = 1025 - size.windowed * max(1025 - size.window, 0)
    active = size.weights.expert * size.top_k * dev.setup.model.expert_layers * dev.setup.model.expert_weight_bits / 8
    moved = size.static_read_bytes + active + (tokens + 1) * size.kv_bytes_per_token
    assert cost(dev, [AT_1K]).latency_s == pytest.approx(moved / (102.4e9 * 0.99), rel=0.01)


@given(systems, models, st.integers(1, 64), st.integers(1, 4000), st.integers(1, 12))
def test_k_steps_of_decoding_are_k_steps(system, model, sequences, context, steps):
    assert_k_steps(device(system, model), StepPlan.of(*[(1, context)] * sequences), steps)


@pytest.mark.parametrize(
    ("system", "model", "batch"),
    [
        ("nmp", "deepseek-v2-lite", [(64, 0)]),
        ("logicpim", "qwen3-30b-a3b", [(20, 0)] * 4),
        ("pim", "glm-4.7-flash", [(1, 0)]),
    ],
)
def test_k_steps_are_k_steps_also_where_an_operator_moves_meanwhile(system, model, batch):
    assert_k_steps(device(system, model), StepPlan.of(*batch), 50)


def assert_k_steps(dev, plan, steps):
    grown = [StepPlan(plan.new_tokens, plan.context + i * plan.new_tokens) for i in range(steps)]
    apart = [dev.probe(one).latency_s[0] for one in grown]
    np.testing.assert_allclose(dev.probe(plan, steps).latency_s, apart, rtol=1e-9)


@pytest.mark.parametrize("system", NEAR)
def test_a_draft_is_refused_by_a_device_without(system):
    with pytest.raises(ValueError, match="The plan has a draft, and the device none"):
        cost(device(system, "qwen3-30b-a3b"), [AT_1K], DraftShape(2, 2, 2))


@given(systems, models, st.lists(st.tuples(st.integers(2, 2048), contexts), min_size=1, max_size=3), shapes)
def test_prompts_among_decoding_sequences_are_prefilled_while_the_others_speculate(system, model, prompts, shape):
    dev = device(system, model, "eagle")
    both, alone = cost(dev, [AT_1K, *prompts], shape), cost(dev, [AT_1K], shape)
    assert both.latency_s >= alone.latency_s * NEARLY
    assert both.seconds.draft_s == pytest.approx(alone.seconds.draft_s)
    assert cost(dev, prompts, shape) == cost(dev, prompts)

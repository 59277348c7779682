"""Do activations that tensor parallelism copies to all PEs take time where a file has links for them, not elsewhere?"""

import dataclasses
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_setup, make_device
from device_model.specs.hardware_file import load_hardware
from device_model.step import StepPlan
from tests.examples import examples

MODELS = ("qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b")
NEARLY = 1 - 1e-9
models, sizes = st.sampled_from(MODELS), st.sampled_from(["elmoe3d-4gb", "elmoe3d-8gb"])


@lru_cache(maxsize=64)
def device(links, hardware="elmoe3d-8gb", model="qwen3-30b-a3b", draft="elastic"):
    """ELMoE-3D whose PEs have so many links for activations, with PSUMs of the shipped one where there are none."""
    setup = load_setup(hardware, model)
    linked = dataclasses.replace(setup.hardware, activation_links=links)
    return make_device("elmoe3d", dataclasses.replace(setup, hardware=linked), draft)


def crowd(batch, context=1024, shape=None):
    return StepPlan.of(*[(1, context)] * batch, draft=shape)


def parts(dev, plan):
    return [{part.name: part for group in stage.groups for part in group} for stage in dev.explain(plan)]


def test_as_shipped_they_take_neither_time_nor_joules():
    assert load_hardware("elmoe3d-4gb").activation_links == load_hardware("elmoe3d-8gb").activation_links == 0
    (found,) = parts(device(0.0), crowd(16))
    assert all(part.link_bytes == 0 for part in found.values())


def test_each_pe_takes_in_what_31_others_have_made():
    """Qwen3: 48 layers, 2,048 wide, with 32 heads of 128, and 8 experts a token of 768; INT8."""
    dev, plan = device(1.0), crowd(3)
    (found,) = parts(dev, plan)
    assert found["static weights"].link_bytes == 31 * 3 * (48 * (2048 + 4096 + 2048) + 2048)
    step = dev.probe(plan).first
    hits = step.expert_hits / step.expert_lookups
    assert found["experts"].link_bytes == pytest.approx(31 * 3 * 48 * 8 * 768 * hits)
    assert found["static weights"].times()[3] == pytest.approx(found["static weights"].link_bytes / (32 * 32e9))


def test_a_latent_is_copied_too_and_of_shared_experts_what_is_between_their_matrices():
    """GLM: 47 layers, 2,048 wide, latents of 768 and 512, 20 heads of 256, a dense MLP of 10,240 in the first."""
    (found,) = parts(device(1.0, model="glm-4.7-flash"), crowd(1))
    values = 47 * (2048 + 768 + 512 + 20 * 256 + 2048) + 46 * 1536 + 10240 + 2048
    assert found["static weights"].link_bytes == 31 * values


def test_a_draft_in_the_pool_copies_them_in_each_of_its_passes():
    dev = device(1.0)
    first, level, verifying = parts(dev, crowd(2, shape=dev.draft.shape))
    for passes, tokens in ((first, 2), (level, 2 * dev.draft.shape.width)):
        assert passes["experts in the pool"].link_bytes == 31 * tokens * 48 * 8 * 768
    without = parts(device(0.0), crowd(2, shape=dev.draft.shape))[-1]
    assert verifying["experts"].link_bytes > without["experts"].link_bytes > 0


@pytest.mark.parametrize("model", MODELS)
def test_one_link_holds_up_prompts_and_crowds_that_speculate_and_no_plain_decoding(model):
    free, linked = device(0.0, model=model), device(1.0, model=model)

    def longer(plan):
        return linked.probe(plan).first.latency_s / free.probe(plan).first.latency_s

    shape = free.draft.shape
    assert all(longer(crowd(batch)) == 1 for batch in (1, 4, 16, 64))
    assert longer(crowd(4, shape=shape)) < 1.01 and 1.0 < longer(crowd(16, shape=shape)) < 1.12
    assert longer(crowd(64, shape=shape)) > 1.1
    assert 1.1 < longer(StepPlan.of((8192, 0))) < 1.7


@examples(40)
@given(models, sizes, st.integers(1, 64), st.integers(1, 8000), st.floats(0.01, 100), st.floats(1, 100), st.booleans())
def test_more_links_are_never_slower_and_none_to_count_are_fastest(
    model, hardware, batch, context, links, times, drafts
):
    few, more, free = (device(n, hardware, model) for n in (links, links * times, 0.0))
    plan = crowd(batch, context, free.draft.shape if drafts else None)
    slow, fast, fastest = (dev.probe(plan).first for dev in (few, more, free))
    assert fastest.latency_s <= fast.latency_s / NEARLY
    assert fast.latency_s <= slow.latency_s / NEARLY
    assert slow.traffic == fast.traffic == fastest.traffic
    assert fast.energy.comm_j == pytest.approx(slow.energy.comm_j) and fast.energy.comm_j >= fastest.energy.comm_j

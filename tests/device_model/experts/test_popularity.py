"""Do all systems read the same experts for the same batch?"""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.hot_hits import expected_touch
from device_model.experts.popularity import free_choices, spread_of
from device_model.load import load_device
from device_model.step import StepPlan
from tests.device_model.mono3d.devices import usage_of

MODELS = ("qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b")
device_of = cache(partial(load_device, "auto"))
STRATUM = {model: load_device("auto", "stratum-l", model) for model in MODELS}
for name, device in STRATUM.items():
    device.know_topics(usage_of(name))
# Either decoding or prompts: Stratum's near-memory compute and its xPU each read what a mixed batch needs.
batches = st.one_of(*(st.lists(each, min_size=1, max_size=40) for each in (st.just(1), st.integers(2, 600))))


@pytest.mark.parametrize("hardware", ["h100", "stratum-l", "a100-8gb"])
@pytest.mark.parametrize("model", MODELS)
@given(batches)
def test_a_batch_reads_as_many_experts_on_any_hardware(hardware, model, new_tokens):
    plan = StepPlan.of(*[(new, 100) for new in new_tokens])
    xpu, other = (next(iter(device_of(each, model).probe(plan))) for each in ("elmoe3d-8gb", hardware))
    assert other.expert_lookups == pytest.approx(xpu.expert_lookups)


@pytest.mark.parametrize("model", MODELS)
@given(batches, st.integers(0, 3), st.booleans())
def test_topics_say_which_experts_a_batch_reads_and_not_how_many(model, new_tokens, topic, mixed):
    stratum = STRATUM[model]
    plan = StepPlan.of(*[(new, 100) for new in new_tokens])
    mix = tuple(float(each == topic) for each in range(4))
    placed = replace(plan, placed=mix, topics=(topic + mixed * np.arange(len(new_tokens))) % 4)
    alike, told = (
        device.probe(plan).first for device, plan in ((device_of("stratum-l", model), plan), (stratum, placed))
    )
    assert told.expert_lookups == pytest.approx(alike.expert_lookups, rel=1e-6)
    assert mixed or told.expert_hits >= alike.expert_hits * (1 - 1e-6)


@given(st.integers(1, 300), st.floats(0.01, 20.0), st.floats(0.01, 0.9))
def test_popular_experts_leave_more_of_them_unread(sequences, spread, share):
    alike = free_choices(share, 0.0, sequences)
    assert alike == sequences
    assert 1.0 - 1e-6 <= free_choices(share, spread, sequences) <= alike * (1 + 1e-6)


def test_the_law_is_the_mean_over_experts_that_are_chosen_as_often_as_they_are_popular():
    """Beta-distributed chances, drawn."""
    share, spread, sequences = 8 / 128, 3.54, 16
    chance = np.random.default_rng(0).beta(1 / spread, (1 / share - 1) / spread, 400_000)
    unread = float(((1 - chance) ** sequences).mean())
    assert (1 - share) ** free_choices(share, spread, sequences) == pytest.approx(unread, rel=0.01)


def test_hot_hits_go_before_popularity_and_without_either_all_are_alike():
    olmoe, llama = (load_device("auto", "stratum-xl", name).setup.model for name in ("olmoe-1b-7b", "llama-4-scout"))
    assert spread_of(olmoe) == spread_of(llama) == 0.0
    even = olmoe.experts * olmoe.expert_layers * (1 - (1 - olmoe.top_k / olmoe.experts) ** 16)
    assert expected_touch(olmoe, 16).touched < even
    assert expected_touch(olmoe, 16, hit_rate=olmoe.top_k / olmoe.experts).touched == pytest.approx(even)

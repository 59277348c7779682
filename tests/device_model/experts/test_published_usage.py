"""Does a table made from a published share of hot choices give that share, by topic, and no more for others?"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.published_usage import published_usage
from device_model.experts.route_map import Routers
from device_model.load import load_device, load_model
from device_model.specs.spec import DeviceError
from device_model.step import StepPlan

TOPICS = ("law", "logic", "programming")
MODELS = {"olmoe-1b-7b": "stratum-s", "mixtral-8x7b": "stratum-l", "llama-4-scout": "stratum-xl"}


def placed(model, batch, mix, topics):
    device = load_device("auto", MODELS[model], model)
    device.know_topics(published_usage(load_model(model), TOPICS))
    plan = StepPlan.of(*batch)
    return device.probe(dataclasses.replace(plan, placed=mix, topics=np.array(topics))).first


@given(st.sampled_from(list(MODELS)), st.lists(st.integers(0, 3000), min_size=1, max_size=24))
def test_placed_for_its_own_topic_a_batch_costs_what_it_does_by_the_published_share(model, contexts):
    batch = [(1, context) for context in contexts]
    own = placed(model, batch, (0.0, 1.0, 0.0), [1] * len(batch))
    published = load_device("auto", MODELS[model], model).probe(StepPlan.of(*batch)).first
    np.testing.assert_allclose([*own.energy, *own.traffic], [*published.energy, *published.traffic])
    assert (own.latency_s, own.expert_lookups, own.expert_hits) == pytest.approx(
        (published.latency_s, published.expert_lookups, published.expert_hits)
    )


@pytest.mark.parametrize("model", MODELS)
def test_own_topics_are_faster_than_all_and_these_than_another(model):
    batch = [(1, 500)] * 2
    own, every, foreign = (placed(model, batch, mix, [0, 0]) for mix in ((1.0, 0, 0), (1.0, 1.0, 1.0), (0, 1.0, 0)))
    assert own.expert_hits > every.expert_hits > foreign.expert_hits
    assert own.latency_s < every.latency_s < foreign.latency_s


@pytest.mark.parametrize("model", MODELS)
def test_a_table_is_one_of_shares_and_the_same_each_time(model):
    spec = load_model(model)
    usage = published_usage(spec, TOPICS)
    assert np.allclose(usage.shares.sum(axis=-1), 1)
    chances = usage.chances(Routers(spec.expert_layers, spec.experts, spec.top_k))
    hottest = np.sort(chances, axis=-1)[..., -spec.top_k :].sum(axis=-1)
    assert np.allclose(hottest / spec.top_k, spec.hot_hit_rate)
    assert np.array_equal(usage.shares, published_usage(spec, TOPICS).shares)
    assert not np.array_equal(usage.shares[0], usage.shares[1])


def test_without_a_published_share_there_is_no_table():
    with pytest.raises(DeviceError, match="a table that was measured"):
        published_usage(load_model("qwen3-30b-a3b"), TOPICS)

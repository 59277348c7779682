"""Do steps find the experts of their own topic in fast rows, as expected and as routed?"""

import numpy as np
import pytest

from device_model.step import StepPlan
from tests.device_model.mono3d.devices import near, usage_of

MODEL = "olmoe-1b-7b"
TOPICS = usage_of(MODEL)
LAYERS, EXPERTS, TOP_K = 16, 64, 8


def device():
    made = near(MODEL)
    made.know_topics(TOPICS)
    return made


def plan(topic, placed, batch=4, routes=None, new=1):
    counts = np.full(batch, new, dtype=np.int64)
    mix = tuple(float(index == placed) for index in range(4))
    return StepPlan(counts, np.full(batch, 500), topics=np.full(batch, topic), placed=mix, routes=routes)


def drawn(topic, tokens, seed=0):
    """Routes [tokens, layers, top_k], by the shares of a topic."""
    draws = np.random.default_rng(seed)
    scores = np.log(TOPICS.shares[topic] + 1e-30)[None] + draws.gumbel(size=(tokens, LAYERS, EXPERTS))
    return np.argsort(-scores, axis=-1)[..., :TOP_K]


def test_a_batch_is_fastest_where_its_own_topic_is_placed():
    stratum = device()
    latency_s = np.array(
        [[stratum.probe(plan(topic, placed)).latency_s[0] for placed in range(4)] for topic in range(4)]
    )
    assert (latency_s.argmin(axis=1) == np.arange(4)).all()


def test_more_is_hot_in_ones_own_placement():
    own, foreign = (device().probe(plan(0, placed)).first for placed in (0, 1))
    assert own.expert_lookups == pytest.approx(foreign.expert_lookups)
    assert own.expert_hits > 1.5 * foreign.expert_hits


def test_what_is_expected_is_what_routes_show_on_average():
    stratum = device()
    routed = [stratum.probe(plan(0, 0, routes=drawn(0, 4, seed))).first for seed in range(60)]
    expected = stratum.probe(plan(0, 0)).first
    assert np.mean([step.expert_lookups for step in routed]) == pytest.approx(expected.expert_lookups, rel=0.08)
    assert np.mean([step.expert_hits for step in routed]) == pytest.approx(expected.expert_hits, rel=0.08)
    assert np.mean([step.latency_s for step in routed]) == pytest.approx(expected.latency_s, rel=0.08)


def test_routes_of_prompts_and_of_what_decodes_are_told_apart():
    stratum, routes = device(), drawn(0, 12)
    mixed = StepPlan(np.array([1, 10, 1]), np.array([500, 0, 500]), routes=routes, placed=(1.0, 0.0, 0.0, 0.0))
    alone = StepPlan(np.array([1, 1]), np.array([500, 500]), routes=routes[[0, 11]], placed=mixed.placed)
    prompt = StepPlan(np.array([10]), np.array([0]), routes=routes[1:11], placed=mixed.placed)
    both = stratum.probe(alone).first.plus(stratum.probe(prompt).first)
    assert stratum.probe(mixed).first.latency_s == pytest.approx(both.latency_s)
    assert stratum.probe(mixed).first.expert_lookups == both.expert_lookups


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"placed": (1.0, 0.0)}, "The plan's experts are placed for"),
        ({"placed": (0.0, 0.0, 0.0, 0.0)}, "4 weights of 0 or more, not all 0: of topic 0, topic 1"),
        ({"topics": np.array([4])}, "allowed is one for each sequence, -1 to 3"),
        ({"topics": np.array([0, 1])}, "allowed is one for each sequence, -1 to 3"),
    ],
)
def test_what_the_table_does_not_have_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        device().probe(StepPlan(np.array([1]), np.array([9]), **wrong))


@pytest.mark.parametrize("asked", [{"placed": (1.0,)}, {"routes": np.zeros((1, LAYERS, TOP_K), dtype=np.int64)}])
def test_a_device_without_a_table_refuses_topics_and_routes_after_a_plan_without_them_too(asked):
    stratum, plain = near(MODEL), StepPlan.of((1, 9))
    stratum.probe(plain)
    with pytest.raises(ValueError, match="the device knows no topics"):
        stratum.probe(StepPlan(plain.new_tokens, plain.context, **asked))


@pytest.mark.parametrize("steps", [1, 20])
def test_a_table_of_topics_replaces_what_was_published(steps):
    stratum, asked = near(MODEL), StepPlan.of((1, 500), (1, 700))
    published = stratum.probe(asked, steps).first
    stratum.know_topics(TOPICS)
    known = stratum.probe(asked, steps).first
    assert known != published and known == device().probe(asked, steps).first


def test_no_topics_are_unknown_topics():
    unknown = StepPlan(np.ones(4, dtype=np.int64), np.full(4, 500), placed=(1.0, 1.0, 1.0, 1.0))
    step = device().probe(unknown).first
    named = StepPlan(unknown.new_tokens, unknown.context, topics=np.full(4, -1), placed=unknown.placed)
    assert device().probe(named).first == step

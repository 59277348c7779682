"""Do experts that are placed by topic serve what their usage says, at both fidelities and beside every draft?"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.fidelity import CacheAsk, PlacementMix
from device_model.experts.hot_pool import HotExperts
from device_model.experts.locality_laws import PassTokens
from device_model.experts.residency import shares
from device_model.experts.route_map import Routers
from device_model.experts.topic_usage import UNKNOWN, TopicUsage, read_usage
from device_model.load import load_device, trace_experts
from device_model.specs.spec import DeviceError
from device_model.step import DraftRoutes, StepPlan
from tests.device_model.experts.test_topic_usage import BUNDLED
from tests.device_model.synthetic_routes import synthetic_routes

USAGE = read_usage(BUNDLED)
TOPICS = len(USAGE.topics)
ROUTERS = Routers(48, 128, 8)
SLICES = ROUTERS.layers * ROUTERS.experts
HOT = HotExperts(USAGE, ROUTERS)
EVEN = (1.0,) * TOPICS
ONLY = [tuple(float(i == j) for j in range(TOPICS)) for i in range(TOPICS)]
NEARLY = 1 - 1e-9

topics = st.integers(UNKNOWN, TOPICS - 1)
weights = st.lists(st.floats(0.0, 10.0), min_size=TOPICS, max_size=TOPICS).filter(any).map(tuple)
mixes = st.one_of(st.sampled_from(ONLY), weights)
rooms = st.integers(0, SLICES)
sequences = st.tuples(st.one_of(st.just(1), st.integers(1, 600)), st.integers(0, 4000), topics)
batches = st.lists(sequences, min_size=1, max_size=12)
schemes = st.sampled_from([None, "elastic", "eagle", "slm"])
models = st.sampled_from(["qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b"])


@cache
def device(draft=None, model="qwen3-30b-a3b", hardware="elmoe3d-8gb", usage=USAGE):
    dev = load_device("elmoe3d", hardware, model, draft)
    dev.know_topics(usage)
    return dev


def plan_of(batch, placed, draft=None, routes=None):
    new, context, asked = (np.array(column, dtype=np.int64) for column in zip(*batch, strict=True))
    return StepPlan(new, context, draft, routes, asked, placed)


def drafting(dev, drafts=True):
    return dev.draft.shape if drafts and dev.draft else None


def cost(dev, batch, placed, drafts=True):
    return next(iter(dev.probe(plan_of(batch, placed, drafting(dev, drafts)))))


def counted(*of_topics):
    """Tokens by topic, by their indices."""
    return np.bincount(np.array(of_topics, dtype=np.int64) % (TOPICS + 1), minlength=TOPICS + 1).astype(float)


def hits(mix, tokens, slices, touched=1000.0):
    return float(HOT.probe(CacheAsk(PassTokens(1, 1), slices, placed=PlacementMix(mix, tokens)), touched).hits)


# --- what is held ---


@given(mixes, rooms)
def test_each_layer_holds_its_most_used_experts_and_no_more_than_its_even_part(mix, slices):
    held = HOT.held(mix, slices)
    np.testing.assert_array_equal(held.sum(axis=1), shares(slices, ROUTERS.layers))
    use = np.tensordot(mix, USAGE.chances(ROUTERS), axes=1)
    coldest = np.where(held, use, np.inf).min(axis=1)
    assert (coldest >= np.where(held, -np.inf, use).max(axis=1)).all()


@given(mixes, rooms, rooms)
def test_more_room_holds_all_that_less_does(mix, one, other):
    less, more = (HOT.held(mix, slices) for slices in sorted((one, other)))
    assert (more | ~less).all()


@given(mixes, mixes, rooms)
def test_a_switch_brings_in_what_the_other_mix_did_not_hold(before, after, slices):
    new = HOT.brought_in(before, after, slices)
    assert new == HOT.brought_in(after, before, slices)  # as many go as come
    assert 0 <= new <= min(slices, SLICES - slices)
    assert HOT.brought_in(after, after, slices) == 0
    assert HOT.brought_in(None, after, slices) == slices


# --- what a pass finds ---


@given(mixes, st.lists(topics, min_size=1, max_size=100), rooms)
def test_what_is_found_is_the_share_of_the_expected_reads_that_is_held(mix, asked, slices):
    """By hand: an expert is read unless every token misses it."""
    chances = USAGE.chances(ROUTERS)
    of_topic = np.concatenate([chances, chances.mean(axis=0, keepdims=True)])
    read = 1 - np.prod([1 - of_topic[topic] for topic in asked], axis=0)
    share = read[HOT.held(mix, slices)].sum() / read.sum()
    assert hits(mix, counted(*asked), slices) == pytest.approx(min(1000 * share, slices))


@given(mixes, st.lists(topics, min_size=1, max_size=100), rooms, rooms)
def test_more_room_never_finds_less(mix, asked, one, other):
    less, more = (hits(mix, counted(*asked), slices) for slices in sorted((one, other)))
    assert 0 <= less <= more / NEARLY and more <= 1000.0


@given(mixes, st.lists(topics, min_size=1, max_size=30), st.randoms())
def test_the_order_of_the_tokens_makes_no_difference(mix, asked, random):
    mixed = random.sample(asked, len(asked))
    assert hits(mix, counted(*mixed), 1300) == hits(mix, counted(*asked), 1300)


@given(st.integers(0, TOPICS - 1), mixes, st.floats(0.1, 200.0), rooms)
def test_a_batch_of_one_topic_finds_most_where_hb_is_placed_for_it(topic, other, tokens, slices):
    alone = counted(topic) * tokens
    assert hits(ONLY[topic], alone, slices) >= hits(other, alone, slices) * NEARLY


@given(st.floats(0.1, 2.0), rooms)
def test_tokens_of_unknown_topic_choose_as_all_topics_do_on_average(tokens, slices):
    unknown = counted(UNKNOWN) * tokens
    assert hits(EVEN, unknown, slices) >= max(hits(mix, unknown, slices) for mix in ONLY) * NEARLY
    mean = TopicUsage(("all",), USAGE.chances(ROUTERS).mean(axis=0, keepdims=True) / ROUTERS.top_k)
    alike = HotExperts(mean, ROUTERS).probe(
        CacheAsk(PassTokens(1, 1), slices, placed=PlacementMix((1.0,), np.array([tokens, 0]))), 9.0
    )
    assert HOT.probe(CacheAsk(PassTokens(1, 1), slices, placed=PlacementMix(EVEN, unknown)), 9.0).hits == pytest.approx(
        alike.hits
    )


@given(mixes, st.lists(topics, min_size=1, max_size=20), st.lists(st.floats(0, 7000), min_size=1, max_size=5))
def test_rooms_of_several_steps_are_answered_as_each_alone(mix, asked, slices):
    ask = CacheAsk(PassTokens(1, 1), np.array(slices), placed=PlacementMix(mix, counted(*asked)))
    alone = [hits(mix, counted(*asked), room) for room in slices]
    np.testing.assert_allclose(HOT.probe(ask, 1000.0).hits, alone)


# --- on a device ---


@given(schemes, models, batches, mixes)
def test_hits_are_among_what_the_law_says_is_touched(draft, model, batch, mix):
    dev = device(draft, model)
    step, cached = (cost(dev, batch, placed) for placed in (mix, None))
    assert step.expert_lookups == cached.expert_lookups
    assert 0 <= step.expert_hits <= step.expert_lookups / NEARLY
    assert step.traffic.ext_bytes >= 0 and sum(step.seconds) == pytest.approx(step.latency_s)


@given(models, st.lists(st.tuples(st.just(1), st.integers(0, 2000), topics), min_size=1, max_size=16), mixes)
def test_experts_used_evenly_are_found_by_their_share(model, batch, mix):
    dev = device(model=model, usage=even_usage())
    step = cost(dev, batch, mix)
    slices = dev.swap(plan_of(batch, mix), None).held
    assert step.expert_hits == pytest.approx(step.expert_lookups * slices / dev.size.experts)


@cache
def even_usage():
    return TopicUsage(USAGE.topics, np.full((TOPICS, 1, 64), 1 / 64))


@given(schemes, st.lists(st.tuples(st.just(1), st.integers(0, 2000)), min_size=1, max_size=16), st.booleans(), mixes)
def test_a_batch_of_one_topic_is_served_soonest_where_hb_is_placed_for_it(draft, batch, drafts, other):
    dev = device(draft)
    for topic in range(TOPICS):
        alone = [(*sequence, topic) for sequence in batch]
        own, foreign = (cost(dev, alone, mix, drafts) for mix in (ONLY[topic], other))
        assert own.expert_hits >= foreign.expert_hits * NEARLY
        assert own.latency_s <= foreign.latency_s / NEARLY


@given(batches, mixes)
def test_without_topics_all_are_unknown(batch, mix):
    plan = plan_of([(new, context, UNKNOWN) for new, context, _ in batch], mix)
    nameless = StepPlan(plan.new_tokens, plan.context, placed=mix)
    assert list(device().probe(plan)) == list(device().probe(nameless))


@given(batches, mixes, st.integers(2, 6))
def test_a_probe_of_several_steps_is_that_of_each(batch, mix, steps):
    plan = plan_of(batch, mix)
    together = list(device().probe(plan, steps))
    for i, step in enumerate(together):
        grown = StepPlan(plan.new_tokens, plan.context + i * plan.new_tokens, topics=plan.topics, placed=mix)
        assert step.expert_hits == pytest.approx(next(iter(device().probe(grown))).expert_hits)


@given(schemes, batches)
def test_what_has_no_experts_placed_costs_what_it_did(draft, batch):
    known, plain = device(draft), load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", draft)
    plan = plan_of(batch, None, drafting(known))
    assert list(known.probe(plan)) == list(plain.probe(StepPlan(plan.new_tokens, plan.context, plan.draft)))


@given(st.lists(st.tuples(st.just(1), st.integers(0, 2000), topics), min_size=1, max_size=16), mixes)
def test_the_pool_of_elastic_sd_holds_the_placed_slices_and_none_is_written(batch, mix):
    """Twice as many as of whole experts: drafts cost the same, and verifying finds what usage says."""
    dev = device("elastic")
    placed, hot = (cost(dev, batch, choice) for choice in (mix, None))
    assert placed.seconds.draft_s == hot.seconds.draft_s
    verify = dev.explain(plan_of(batch, mix, dev.draft.shape))[1]
    assert all(part.hb_writes == 0 for group in verify.groups for part in group)
    sliced, whole = (dev.swap(plan_of(batch, mix, shape), None).held for shape in (dev.draft.shape, None))
    tree = len(batch) * dev.draft.shape.tokens * dev.size.kv_bytes_per_token / dev.size.expert_bytes
    assert sliced == pytest.approx((whole - tree) * 8.5 / 4.5, abs=3)


# --- at trace fidelity ---


def test_routes_are_counted_against_what_is_placed_and_commits_change_nothing():
    traced = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
    traced.know_topics(USAGE)
    trace_experts(traced)
    draw = np.random.default_rng(3)
    routes = synthetic_routes(USAGE.chances(ROUTERS)[4] / ROUTERS.top_k, 4, ROUTERS.top_k, 0.0, draw)
    plan = plan_of([(1, 1024, 4)] * 4, ONLY[4], routes=routes)
    step = next(iter(traced.probe(plan)))
    held = HOT.held(ONLY[4], traced.swap(plan, None).held)
    read = np.zeros_like(held)
    read[np.arange(ROUTERS.layers)[:, None], routes.transpose(1, 0, 2).reshape(ROUTERS.layers, -1)] = True
    assert step.expert_lookups == read.sum() and step.expert_hits == pytest.approx((read & held).sum())
    traced.commit(plan)
    assert next(iter(traced.probe(plan))) == step
    assert traced.probe(plan_of([(1, 1024, 4)] * 4, None, routes=routes)).first.expert_hits == 0


def test_drafts_beside_placed_experts_find_the_pool_as_it_is():
    """Their cost depends on the pool that was left, without routes of the target too."""
    traced = load_device("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b", "elastic")
    traced.know_topics(USAGE)
    trace_experts(traced)
    shape, even = traced.draft.shape, np.full((ROUTERS.layers, ROUTERS.experts), 1 / ROUTERS.experts)
    tokens, draw = shape.depth * shape.width, np.random.default_rng(5)
    wanted = synthetic_routes(even, tokens + shape.target_tokens, ROUTERS.top_k, 0.0, draw)
    drafts, verified = DraftRoutes(tuple(np.split(wanted[:tokens], shape.depth))), wanted[tokens:]
    plan = replace(plan_of([(1, 1024, 0)], EVEN, shape), drafts=drafts)
    empty = traced.probe(plan).first.seconds.draft_s
    traced.commit(replace(plan, placed=None, routes=verified))
    assert traced.probe(plan).first.seconds.draft_s > empty


def test_the_expectation_is_what_routes_of_that_usage_find():
    tokens, rounds, draw = 4, 40, np.random.default_rng(1)
    chances = USAGE.chances(ROUTERS)[4] / ROUTERS.top_k
    found, law = [], hits(ONLY[4], counted(*[4] * tokens), 1300)
    for _ in range(rounds):
        routes = synthetic_routes(chances, tokens, ROUTERS.top_k, 0.0, draw)
        reads = HOT.probe(
            CacheAsk(PassTokens(tokens, 1), 1300, routes=routes, placed=PlacementMix(ONLY[4], counted())), 0.0
        )
        found.append(reads.hits / reads.touched)
    # Drawn one after the other without putting back, the popular ones are drawn a little less than their chances say.
    assert np.mean(found) == pytest.approx(law / 1000, rel=0.05)


# --- switches ---


@given(schemes, st.lists(sequences, min_size=1, max_size=8), mixes, mixes)
def test_a_swap_is_the_slices_that_are_new_in_the_room_that_there_is(draft, batch, before, after):
    dev = device(draft)
    plan = plan_of(batch, after, drafting(dev))
    swap = dev.swap(plan, before)
    assert swap.taken_in == HOT.brought_in(before, after, swap.held)
    pooled = draft == "elastic" and any(new == 1 for new, *_ in batch)
    assert swap.bytes == pytest.approx(swap.taken_in * dev.size.expert_bytes * (4.5 / 8.5 if pooled else 1.0))
    assert dev.swap(plan, after) == (swap.held, 0, 0.0)
    assert dev.swap(plan, None).taken_in == swap.held


def test_a_switch_between_topics_takes_some_steps_worth_of_time():
    """Most of 1,300 experts of 5 MB: tens of milliseconds of LPDDR, where Stratum's stay within a bank."""
    dev, batch = device(), [(1, 1024, 0)] * 4
    swap = dev.swap(plan_of(batch, ONLY[0]), ONLY[4])
    assert 1200 < swap.held < 1400 and 0.5 < swap.taken_in / swap.held < 1
    took = dev.transfer(swap.bytes, 0.0)
    assert took.latency_s == pytest.approx(swap.bytes / dev.ext_bytes_per_s)
    assert 0.01 < took.latency_s < 0.1


# --- what means nothing ---


@pytest.mark.parametrize(
    "mix", [(1.0,), (0.0,) * TOPICS, (*EVEN[1:], -1.0), (*EVEN[1:], float("nan")), (*EVEN[1:], float("inf"))]
)
def test_a_mix_that_means_nothing_is_refused(mix):
    with pytest.raises(ValueError, match="allowed are 7 weights of 0 or more, not all 0: of legal, humanities, cs"):
        device().probe(plan_of([(1, 5, 0)], mix))


@pytest.mark.parametrize("asked", [[7], [-2], [0, 0]])
def test_topics_that_the_table_does_not_have_are_refused(asked):
    one = np.ones(1, dtype=np.int64)
    with pytest.raises(ValueError, match="allowed is one for each sequence, -1 to 6"):
        device().probe(StepPlan(one, one, topics=np.array(asked), placed=EVEN))


def test_another_table_of_usage_is_answered_by_at_once():
    dev = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
    batch, mixed = [(1, 1024, 0)] * 4, TopicUsage(USAGE.topics, USAGE.shares[::-1])
    for usage in (USAGE, mixed):
        dev.know_topics(usage)
        assert cost(dev, batch, ONLY[0]) == cost(device(usage=usage), batch, ONLY[0])
    assert cost(device(), batch, ONLY[0]) != cost(dev, batch, ONLY[0])


def test_devices_that_can_t_place_experts_say_why():
    with pytest.raises(ValueError, match="the device knows no topics"):
        load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b").probe(plan_of([(1, 5, 0)], EVEN))
    with pytest.raises(ValueError, match="The plan has no experts placed"):
        device().swap(plan_of([(1, 5, 0)], None), EVEN)
    with pytest.raises(ValueError, match="no HB to place them in"):
        load_device("pim", "elmoe3d-8gb", "qwen3-30b-a3b").probe(plan_of([(1, 5, 0)], EVEN))
    for names in (("pim", "qwen3-30b-a3b"), ("xpu", "qwen3-30b-a3b"), ("elmoe3d", "qwen2.5-1.5b")):
        with pytest.raises(DeviceError, match="Only systems with HB, serving a model with experts"):
            load_device(names[0], "elmoe3d-8gb", names[1]).know_topics(USAGE)
    for draft in ("quant", "random"):
        with pytest.raises(DeviceError, match="fills HB as it needs it"):
            device(draft)

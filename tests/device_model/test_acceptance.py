"""Is an acceptance rate the published one at its points, between them in between, and beyond them the edge and said?"""

import csv
import dataclasses
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.acceptance import _of_traced_pool, acceptance, acceptance_of, batch_plan, measured_of
from device_model.experts.traced_cache import PoolReads
from device_model.hotness_gain import PUBLISHED_SHARE, falling, hotness_gain
from device_model.load import load_device, load_setup, make_device, trace_experts
from device_model.specs.measured_rates import read_measured
from device_model.specs.spec import DeviceError
from device_model.step import DraftRoutes, StepPlan
from device_model.validation.table3 import SCHEMES as CELL_SCHEMES
from device_model.validation.table3 import TABLE3 as TABLE
from device_model.work import StepWork
from tests.device_model.speculating import device
from tests.device_model.synthetic_routes import synthetic_routes, zipf_popularity

with TABLE.open(encoding="utf-8", newline="") as file:
    ALPHA = {
        (row["target"].lower(), row["draft"], float(row["hb_gb"]), int(row["batch"])): float(row["alpha"])
        for row in csv.DictReader(file)
    }
TARGETS = ("deepseek-v2-lite", "glm-4.7-flash", "gpt-oss-20b", "qwen3-30b-a3b")
SCHEMES = ("EAGLE3", "Elastic-SD", "Quant-SD", "SLM-SD")
BATCHES = (1, 4, 8, 16)
targets, schemes = st.sampled_from(TARGETS), st.sampled_from(SCHEMES)
sizes, batches = st.floats(4.0, 8.0), st.integers(1, 16)
SMALL = 1e-12


def test_the_table_is_complete():
    assert set(ALPHA) == {(t, s, hb, b) for t in TARGETS for s in SCHEMES for hb in (4.0, 8.0) for b in BATCHES}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_published_point_is_given_as_it_is(target, scheme):
    for hb_gb in (4.0, 8.0):
        for batch in BATCHES:
            assert acceptance(target, scheme, hb_gb, batch) == (ALPHA[target, scheme, hb_gb, batch], "")


@given(targets, schemes, sizes, batches)
def test_between_the_points_a_rate_lies_between_theirs(target, scheme, hb_gb, batch):
    low, high = next(pair for pair in pairwise(BATCHES) if pair[0] <= batch <= pair[1])
    corners = [ALPHA[target, scheme, hb, b] for hb in (4.0, 8.0) for b in (low, high)]
    found = acceptance(target, scheme, hb_gb, batch)
    assert min(corners) - SMALL <= found.alpha <= max(corners) + SMALL
    assert found.caveat == ""


@given(targets, schemes, sizes, st.sampled_from(BATCHES))
def test_it_is_linear_in_the_size(target, scheme, hb_gb, batch):
    small, large = (ALPHA[target, scheme, hb, batch] for hb in (4.0, 8.0))
    between = small + (large - small) * (hb_gb - 4) / 4
    assert acceptance(target, scheme, hb_gb, batch).alpha == pytest.approx(between)


def test_and_in_the_logarithm_of_the_batch():
    """2 is half way from 1 to 4."""
    assert acceptance("qwen3-30b-a3b", "Elastic-SD", 4, 2).alpha == pytest.approx((0.66 + 0.57) / 2)


@pytest.mark.parametrize(
    ("hb_gb", "batch", "edge", "named"),
    [
        (16, 4, (8.0, 4), "16 GB of HB"),
        (3.5, 1, (4.0, 1), "3.5 GB of HB"),
        (4, 32, (4.0, 16), "a batch of 32"),
        (12, 64, (8.0, 16), "12 GB of HB, a batch of 64"),
    ],
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_beyond_the_table_is_its_edge_and_a_caveat_that_names_what_is_beyond(hb_gb, batch, edge, named, scheme):
    for target in TARGETS:
        found = acceptance(target, scheme, hb_gb, batch)
        assert found.alpha == pytest.approx(ALPHA[target, scheme, *edge])
        assert found.caveat == f"Beyond ELMoE-3D's Table 3 ({named}): its nearest rate."


@given(schemes, sizes, batches)
def test_a_model_that_is_not_in_the_table_has_the_mean_of_those_that_are(scheme, hb_gb, batch):
    found = acceptance("mixtral-8x7b", scheme, hb_gb, batch)
    assert found.alpha == pytest.approx(sum(acceptance(t, scheme, hb_gb, batch).alpha for t in TARGETS) / 4)
    assert found.caveat.startswith("mixtral-8x7b is not in ELMoE-3D's Table 3: ") and found.caveat.endswith(".")
    assert scheme in found.caveat


def test_an_unknown_scheme_is_refused_with_those_that_have_a_rate():
    with pytest.raises(DeviceError) as caught:
        acceptance("qwen3-30b-a3b", "Medusa", 4, 1)
    assert "'Medusa'" in str(caught.value)
    assert str(caught.value).endswith("are EAGLE3, Elastic-SD, Quant-SD, SLM-SD.")


@given(targets, st.sampled_from([4, 6, 8]), st.integers(1, 64), st.integers(0, 8000))
def test_a_random_pool_has_less_accepted_than_a_hot_one(target, hb_gb, batch, context):
    plan = StepPlan.of(*[(1, context)] * batch)
    hot, random = (
        acceptance_of(device("elmoe3d", f"elmoe3d-{hb_gb}gb", target, d), plan) for d in ("elastic", "random")
    )
    assert hot.alpha / 1.41 <= random.alpha <= hot.alpha or batch > 1
    assert random.alpha <= hot.alpha and random.caveat.startswith("Random-SD: ")


@pytest.mark.parametrize("target", TARGETS)
def test_hotness_gains_the_more_the_fewer_experts_a_pool_has(target):
    gains = []
    for hb_gb in (8, 6, 4):
        hot, random = (
            acceptance_of(device("elmoe3d", f"elmoe3d-{hb_gb}gb", target, draft), batch_plan(1)).alpha
            for draft in ("elastic", "random")
        )
        gains.append(hot / random)
    assert gains == sorted(gains) and gains[-1] > gains[0] + 0.02


@given(st.lists(st.floats(0.0, 9.0), min_size=1, max_size=8))
def test_gains_that_rise_by_errors_of_measuring_are_levelled_and_no_others(gains):
    level = falling(gains)
    assert level == sorted(level, reverse=True) and sum(level) == pytest.approx(sum(gains))
    assert falling(sorted(gains, reverse=True)) == sorted(gains, reverse=True)


def test_a_traced_pool_has_the_rate_of_its_members_and_their_hotness():
    alone, gain = acceptance("qwen3-30b-a3b", "Elastic-SD", 8.0, 1), hotness_gain(0.4)

    def alpha(members: float, covered: float) -> float:
        pool = PoolReads(members=members, read=0.1, computed=0.5, covered=covered, coverable=0.9)
        return _of_traced_pool(alone, pool, 0.4).alpha / alone.alpha

    hottest, chance = 0.9, 0.4  # as hot as its size allows, and no hotter than its share of the experts
    assert alpha(0.4, hottest) == pytest.approx(1.0)
    assert alpha(0.4, chance) == pytest.approx(1.0 / gain)
    assert 1.0 / gain < alpha(0.4, 0.65) < 1.0
    assert alpha(0.2, hottest) == pytest.approx(0.5)


def test_hotness_gains_what_was_published_and_nothing_where_all_experts_are_there():
    dev = device("elmoe3d", "elmoe3d-8gb", "glm-4.7-flash", "random")
    assert acceptance_of(dev, batch_plan(1)).alpha == pytest.approx(0.78 / 1.22, rel=0.01)
    assert dev.draft.drafted_share(dev, dev.held(StepWork.of(batch_plan(1), 1))) == pytest.approx(
        PUBLISHED_SHARE, abs=0.01
    )
    assert hotness_gain(1.0) == 1.0 and hotness_gain(PUBLISHED_SHARE) == pytest.approx(1.22)


@given(targets.filter(lambda target: target != "gpt-oss-20b"), st.integers(1, 15))  # whose windows make KV differ
def test_a_random_pool_of_a_size_is_no_worse_for_a_larger_batch(target, batch):
    dev = device("elmoe3d", "elmoe3d-8gb", target, "random")
    tree = dev.draft.shape.tokens
    one, many = (acceptance_of(dev, StepPlan.of(*[(1, 15_000 // size - tree)] * size)).alpha for size in (1, batch))
    assert many == pytest.approx(one, rel=0.001)


def test_a_traced_pool_that_fills_comes_to_the_rate_of_its_room():
    dev = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic")
    room = acceptance_of(dev, batch_plan(1)).alpha
    trace_experts(dev)
    popularity = zipf_popularity(48, 128, 1.2, np.random.default_rng(0))
    found = []
    for seed in range(12):
        routes = synthetic_routes(popularity, 40, 8, 0.4, np.random.default_rng(seed))
        drafts = DraftRoutes(tuple(np.split(routes[20:], 4)))
        plan = dataclasses.replace(batch_plan(1), draft=dev.draft.shape, routes=routes[:20], drafts=drafts)
        found.append(acceptance_of(dev, plan).alpha)
        dev.commit(plan)
    assert found[0] == 0 < found[1] < found[-1]
    assert room / 1.23 <= found[-1] <= room


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("hb_gb", [4, 8])
def test_at_1k_a_device_has_the_rate_of_the_table(scheme, hb_gb):
    for target in TARGETS:
        dev = device("elmoe3d", f"elmoe3d-{hb_gb}gb", target, CELL_SCHEMES[scheme])
        for batch in (1, 4, 8, 16):
            assert acceptance_of(dev, batch_plan(batch)).alpha == pytest.approx(ALPHA[target, scheme, hb_gb, batch])


@given(targets, st.integers(1, 16), st.integers(0, 30_000), st.integers(1, 30_000))
def test_a_longer_context_never_raises_the_rate_of_a_pool_and_leaves_the_others_alone(target, batch, context, more):
    for scheme in ("elastic", "eagle"):
        dev = device("elmoe3d", "elmoe3d-8gb", target, scheme)
        short, long = (acceptance_of(dev, StepPlan.of(*[(1, c)] * batch)).alpha for c in (context, context + more))
        assert long <= short if scheme == "elastic" else long == short


@given(targets, st.sampled_from([4, 8]), st.integers(16, 128), st.integers(1, 64), st.integers(0, 32_000))
def test_beyond_the_largest_batch_another_sequence_never_raises_the_rate_and_an_empty_pool_has_none(
    target, hb_gb, batch, more, context
):
    """Its KV cache takes room from the pool as a longer context does."""
    dev = device("elmoe3d", f"elmoe3d-{hb_gb}gb", target, "elastic")
    few, many = (StepPlan.of(*[(1, context)] * size) for size in (batch, batch + more))
    assert acceptance_of(dev, many).alpha <= acceptance_of(dev, few).alpha
    if not float(dev.held(StepWork.of(many, 1)).hb_expert_bytes):
        assert acceptance_of(dev, many).alpha == 0


def test_a_batch_of_32_drafts_as_one_of_16_with_contexts_that_are_twice_as_long() -> None:
    dev = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic")
    tree = dev.draft.shape.tokens
    wide, long = (acceptance_of(dev, StepPlan.of(*[(1, kv - tree)] * (32_768 // kv))) for kv in (1024, 2048))
    assert wide.alpha == pytest.approx(long.alpha, abs=0.001) and "a batch of 32" in wide.caveat


def test_a_pool_that_the_kv_cache_has_squeezed_by_a_gigabyte_is_that_of_a_smaller_hb():
    dev, less = (device("elmoe3d", f"elmoe3d-{gb}gb", "qwen3-30b-a3b", "elastic") for gb in (8, 7))
    tokens = round(2**30 / dev.size.kv_bytes_per_token)
    squeezed = acceptance_of(dev, StepPlan.of((1, 1024 + tokens))).alpha
    assert squeezed == pytest.approx(acceptance_of(less, batch_plan(1)).alpha, rel=1e-4)


def test_with_no_pool_left_nothing_is_accepted_and_the_caveat_says_why():
    dev = device("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b", "elastic")
    none = acceptance_of(dev, StepPlan.of((1, 400_000)))
    assert none.alpha == 0 and "smaller pool" in none.caveat
    some = acceptance_of(dev, StepPlan.of((1, 8000)))
    assert 0 < some.alpha < acceptance_of(dev, batch_plan(1)).alpha and "smaller pool" in some.caveat


@given(
    st.integers(151_936, 2_000_000),
    st.sampled_from([4.0, 8.0, 16.0]),
    batches,
    st.integers(0, 32_000),
    st.integers(1, 9000),
)
def test_a_model_whose_static_weights_leave_no_pool_at_4_gb_has_a_rate_that_falls_with_its_pool(
    vocab, hb_gb, batch, context, more
):
    setup = load_setup("elmoe3d-8gb", "qwen3-30b-a3b")
    model = dataclasses.replace(setup.model, vocab_size=vocab)
    hardware = dataclasses.replace(setup.hardware, hb_capacity_gib=hb_gb)
    dev = make_device("elmoe3d", dataclasses.replace(setup, target="mine", model=model, hardware=hardware), "elastic")
    short, long = (StepPlan.of(*[(1, c)] * batch) for c in (context, context + more))
    before, after = (acceptance_of(dev, plan).alpha for plan in (short, long))
    assert 0 <= after <= before <= 1
    if not float(dev.held(StepWork.of(long, 1), dev.draft.shape).hb_expert_bytes):
        assert after == 0


@given(st.sampled_from(["elastic", "random"]), batches, st.integers(0, 32_000), st.integers(1, 32_000))
def test_drafts_of_a_dense_model_have_no_pool_to_lose(scheme, batch, context, more):
    dev, rates = device("elmoe3d", "elmoe3d-8gb", "qwen2.5-1.5b", scheme), read_measured()
    short, long = (StepPlan.of(*[(1, c)] * batch) for c in (context, context + more))
    assert acceptance_of(dev, long) == acceptance_of(dev, short) and acceptance_of(dev, long).alpha > 0
    assert measured_of(dev, long, rates) == measured_of(dev, short, rates) and measured_of(dev, long, rates).alpha > 0


def test_there_is_no_rate_without_a_draft_or_where_nothing_decodes():
    for draft, new in ((None, 1), ("elastic", 2)):
        with pytest.raises(ValueError, match="without a draft"):
            acceptance_of(device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", draft), StepPlan.of((new, 0)))


@given(st.sampled_from(["elastic", "random"]), batches, st.integers(1024, 32_000), st.integers(1, 2000))
def test_a_pool_of_all_experts_is_as_good_in_whatever_room_and_loses_nothing_at_once(scheme, batch, context, more):
    dev = device("elmoe3d", "elmoe3d-8gb", "olmoe-1b-7b", scheme)
    plans = [StepPlan.of(*[(1, c)] * batch) for c in (1024, context, context + more)]
    first, short, long = (acceptance_of(dev, plan).alpha for plan in plans)
    shares = [dev.draft.drafted_share(dev, dev.held(StepWork.of(plan, 1), dev.draft.shape)) for plan in plans]
    assert long <= short <= first
    for share, alpha in zip(shares, (first, short, long), strict=True):
        assert alpha == first or share < 1
        assert alpha >= first * share * (1 - 1e-9) or scheme == "random"  # whose hotness is worth more in a smaller one


@pytest.mark.parametrize("scheme", sorted(set(SCHEMES) - {"Elastic-SD"}))
def test_drafts_without_a_pool_have_the_same_rate_at_each_size_of_hb_and_without_any(scheme):
    for target, batch in product(TARGETS, BATCHES):
        assert ALPHA[target, scheme, 4, batch] == ALPHA[target, scheme, 8, batch]
    without_hb = device("xpu", "elmoe3d-8gb", "qwen3-30b-a3b", CELL_SCHEMES[scheme])
    assert acceptance_of(without_hb, batch_plan(4)) == (ALPHA["qwen3-30b-a3b", scheme, 8, 4], "")

"""Do drafts of other depths than the calibrated one cost and yield as trees must?"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.acceptance import acceptance_of, measured_of
from device_model.specs.measured_rates import read_measured
from device_model.step import StepPlan
from device_model.tree_law import accepted_of
from tests.device_model.speculating import AT_1K, batches, cost, crowds, decoding, device, devices

NEARLY = 1 - 1e-9
RATES = st.sampled_from([None, read_measured()])
shares = st.floats(0.0, 1.0)


def depth_of(dev, share):
    """A depth that `dev` can draft."""
    return max(1, round(share * dev.draft.deepest))


def rate_of(dev, batch, rates):
    """At the calibrated depth: measured, or published."""
    plan = StepPlan.of(*batch)
    return acceptance_of(dev, plan) if rates is None else measured_of(dev, plan, rates)


def yields(dev, batch, rates=None):
    """Draft tokens accepted of a sequence that decodes, on average, of a draft of each depth."""
    alpha, own = rate_of(dev, batch, rates).alpha, dev.draft.shape
    return [accepted_of(alpha, own, dev.draft.shape_at(depth)) for depth in range(1, dev.draft.deepest + 1)]


@given(devices)
def test_at_its_own_depth_a_scheme_has_its_calibrated_shape(dev):
    assert dev.draft.shape_at(dev.draft.shape.depth) == dev.draft.shape


@given(devices, shares)
def test_each_level_keeps_its_verified_tokens_and_a_path_always_fits(dev, share):
    own, depth = dev.draft.shape, depth_of(dev, share)
    shape = dev.draft.shape_at(depth)
    assert (shape.depth, shape.width) == (depth, own.width)
    assert shape.verify_tokens >= depth
    assert shape.verify_tokens / depth == pytest.approx(own.verify_tokens / own.depth, abs=0.5 / depth + 1e-9)


@given(devices, batches, shares, shares)
def test_a_shallower_draft_never_costs_more(dev, batch, one, other):
    low, high = (dev.draft.shape_at(depth) for depth in sorted((depth_of(dev, one), depth_of(dev, other))))
    less, more = cost(dev, batch, low), cost(dev, batch, high)
    assert less.latency_s <= more.latency_s / NEARLY and less.energy_j <= more.energy_j / NEARLY


@given(devices, crowds)
def test_each_pass_more_costs_time(dev, batch):
    times = [cost(dev, batch, dev.draft.shape_at(d)).latency_s for d in (1, dev.draft.shape.depth, dev.draft.deepest)]
    assert times[0] < times[1] < times[2]


@given(devices, crowds, RATES)
def test_a_deeper_draft_has_more_accepted_but_the_same_share_at_most(dev, batch, rates):
    accepted = [0.0, *yields(dev, batch, rates)]
    assert all(more >= less - 1e-9 for less, more in pairwise(accepted))
    assert all(total <= depth + 1e-9 for depth, total in enumerate(accepted))
    middle, deepest = (accepted[depth] / depth for depth in (dev.draft.shape.depth, dev.draft.deepest))
    assert deepest <= middle + 1e-9 <= accepted[1] + 2e-9


@given(devices, st.lists(decoding, min_size=1, max_size=8), RATES)
def test_at_the_calibrated_depth_what_is_accepted_is_the_rate_of_it(dev, batch, rates):
    depth = dev.draft.shape.depth
    assert yields(dev, batch, rates)[depth - 1] == pytest.approx(rate_of(dev, batch, rates).alpha * depth)


@pytest.mark.parametrize("depth", [0, -1, 23])
def test_a_depth_that_is_too_far_from_the_calibrated_one_is_refused(depth):
    draft = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic").draft
    with pytest.raises(ValueError, match=f"depth is {depth}; Elastic-SD can draft 1 to 22 tokens ahead"):
        draft.shape_at(depth)


def test_a_pass_wider_than_any_tree_is_refused():
    """The law of its accepted tokens would take gigabytes."""
    draft = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic").draft
    assert draft.shape_at(11, 256).width == 256
    with pytest.raises(ValueError, match="width is 257; Elastic-SD can draft 1 to 256 tokens in a pass"):
        draft.shape_at(11, 257)


@pytest.mark.parametrize("rates", [None, read_measured()])
def test_there_is_nothing_to_accept_without_a_draft(rates):
    with pytest.raises(ValueError, match="without a draft"):
        rate_of(device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b"), [AT_1K], rates)

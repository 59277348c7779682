"""Do plans that stand for batches have the topics for which experts are placed?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.topic_usage import UNKNOWN
from device_model.step import StepPlan
from serving.policies.placed_plan import PARTS, Mix, coarse, placed
from serving.scenario.scenario import Scenario
from serving.simulation.simulator import Simulator
from serving.types import Request

weights = st.lists(st.integers(0, 50), min_size=2, max_size=8).filter(lambda each: max(each) > min(each))
mixes = weights.map(lambda each: tuple(weight / sum(each) for weight in each))


@given(mixes)
def test_a_coarse_mix_is_near_its_own_and_stays_what_it_is(mix: Mix) -> None:
    near = coarse(mix)
    assert near is not None and sum(near) == pytest.approx(1)
    assert all(abs(one - other) <= 1 / PARTS + 1e-9 for one, other in zip(near, mix, strict=True))
    assert coarse(near) == pytest.approx(near)


@given(mixes, st.integers(1, 64))
def test_sequences_have_topics_as_often_as_the_mix_has_them(mix: Mix, sequences: int) -> None:
    plan = placed(StepPlan.of(*[(1, 100)] * sequences), mix)
    assert plan.placed == mix and plan.topics is not None
    counts = np.bincount(plan.topics, minlength=len(mix))
    assert all(abs(count - share * sequences) < 1 for count, share in zip(counts, mix, strict=True))


def test_an_even_mix_is_of_no_topic_in_particular_and_none_leaves_the_plan() -> None:
    plan, even = StepPlan.of((1, 100), (1, 100)), (1 / 7,) * 7
    assert coarse(even) == even and coarse(None) is None and placed(plan, None) is plan
    topics = placed(plan, even).topics
    assert topics is not None and set(topics.tolist()) == {UNKNOWN}


@pytest.mark.parametrize(("hardware", "users"), [("elmoe3d-8gb", 1), ("elmoe3d-4gb", 2)])
def test_tau_knows_that_experts_are_placed(hardware: str, users: int) -> None:
    """By an LRU cache plain decoding would be as fast there."""
    requests = [Request(str(user), 0.0, 256, 300, seed=user, topic="legal") for user in range(users)]
    last_s = {}
    for mode in ("tau", "fixed-ar", "fixed-sd"):
        scenario = Scenario(hardware=hardware, draft="elastic", placement="topic", mode=mode)
        outcomes, _ = Simulator(scenario).serve(requests)
        last_s[mode] = max(outcome.last_s for outcome in outcomes)
    assert last_s["fixed-sd"] < 0.8 * last_s["fixed-ar"]
    assert last_s["tau"] <= 1.02 * last_s["fixed-sd"]

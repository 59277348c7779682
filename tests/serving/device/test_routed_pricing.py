"""Are traced steps on Stratum priced by where the experts lie that routers chose, and swaps with them?"""

import dataclasses

import pytest

from device_model.specs.spec import DeviceError
from serving.device.device_spec import DeviceSpec
from serving.device.routed_pricing import RoutePricer
from serving.device.traced_pricing import check_trace
from serving.scenario.scenario import Scenario, ScenarioError
from serving.simulation.recorded_texts import recorded
from serving.simulation.simulator import Simulator
from serving.types import Batch, Request, StepRecord

SCENARIO = Scenario(
    hardware="stratum-s", model="olmoe-1b-7b", residency="trace", placement="topic", max_num_seqs=4, max_model_len=2048
)
SPEC = DeviceSpec.of(SCENARIO, SCENARIO.members[0])
OPTIONS = SPEC.load()
FULL_SPEED = OPTIONS.device.ext_bytes_per_s


def pricer(scenario: Scenario = SCENARIO) -> RoutePricer:
    made = DeviceSpec.of(scenario, scenario.members[0]).pricer(OPTIONS, recorded)
    assert isinstance(made, RoutePricer)
    return made


def batch(*topics: str, seed: int = 0, horizon: int = 30) -> Batch:
    n = len(topics)
    seeds = [1000 * seed + 37 * i for i in range(n)]
    ids, ones = [f"{seed} {i} {topics[i]}" for i in range(n)], [1] * n
    return Batch(
        ids,
        ones,
        [100] * n,
        [True] * n,
        0.0,
        seeds=seeds,
        remaining=[horizon] * n,
        topics=list(topics),
        horizon=horizon,
    )


def hot_share(of: RoutePricer, *topics: str) -> float:
    costs = [priced.cost for seed in range(4) for priced in of.price(batch(*topics, seed=seed), FULL_SPEED)]
    return sum(cost.expert_hits for cost in costs) / sum(cost.expert_lookups for cost in costs)


def test_experts_of_the_batchs_topic_are_found_hot_more_often_than_those_of_all() -> None:
    once = dataclasses.replace(SCENARIO, placement="hot")
    for topic in ("legal", "math"):
        assert hot_share(pricer(), topic, topic) > 1.1 * hot_share(pricer(once), topic, topic)


def test_another_topic_is_paid_for_in_its_first_step_and_no_token_is_guessed() -> None:
    of = pricer()
    for topics, swapped in ((("legal",), True), (("legal",), False), (("math",), True)):
        first, *rest = of.price(batch(*topics), FULL_SPEED)
        assert bool(first.swaps) == (first.swap_s > 0) == (first.swap_j > 0) == swapped
        assert not any(priced.swaps or priced.unrouted for priced in rest)
        assert of.again(first, 0, FULL_SPEED).latency_s == pytest.approx(first.cost.latency_s - first.swap_s)


def test_without_a_placement_experts_lie_where_all_topics_want_them() -> None:
    plain = dataclasses.replace(SCENARIO, placement="lru")
    once = dataclasses.replace(SCENARIO, placement="hot")
    assert hot_share(pricer(plain), "legal", "math") == hot_share(pricer(once), "legal", "math")


def run(scenario: Scenario) -> list[StepRecord]:
    topics = ("legal", "math", "cs")
    requests = [Request(str(i), 0.002 * i, 60, 20, seed=i, topic=topics[i % 3]) for i in range(18)]
    outcomes, records = Simulator(scenario).serve(requests)
    assert all(outcome.tokens == 20 for outcome in outcomes)
    return records


def test_in_virtual_time_swaps_follow_the_batch_and_a_fault_slows_the_rest() -> None:
    records = run(SCENARIO)
    assert sum(record.swaps for record in records) > 3 and sum(record.unrouted for record in records) == 0
    broken = dataclasses.replace(SCENARIO, faults=("clock: left=0.1, device=0, at=0.05",))
    ends = [max(record.start_s + record.latency_s for record in each) for each in (records, run(broken))]
    assert ends[1] > ends[0]


def test_what_has_no_experts_or_a_cache_for_them_is_refused() -> None:
    dense = Scenario(hardware="stratum-l", model="qwen2.5-32b", residency="trace")
    with pytest.raises(DeviceError, match="Only experts can be placed by topic"):
        DeviceSpec.of(dense, dense.members[0]).load()
    with pytest.raises(ScenarioError, match="cached by LRU, except on Stratum"):
        Scenario(residency="trace", placement="topic")
    assert SPEC.trace is not None
    check_trace(SPEC.trace)

"""Does each step's record add up, also where steps are made at once?"""

import dataclasses
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.reports.policy_comparison import mixed, run
from serving.scenario.scenario import Scenario
from serving.simulation.simulator import Simulator
from serving.types import StepRecord
from tests.examples import examples

SPECULATING = Scenario(mode="tau", tau=4, max_num_seqs=8, max_num_batched_tokens=8192)
SWAPPING = dataclasses.replace(SPECULATING, placement="topic", batching="topic-aware", mode="fixed-ar")
SPILLING = dataclasses.replace(SPECULATING, hardware="elmoe3d-4gb", kv_tier="hb", preemption="spill", max_num_seqs=256)
TRACED = dataclasses.replace(SPILLING, residency="trace", mode="fixed-ar", tau=0, draft="")


def records_of(scenario: Scenario) -> list[StepRecord]:
    requests = 200 if scenario in (SPILLING, TRACED) else 40
    return run(scenario, mixed(requests, seed=1, rate_per_s=requests))[1]


@pytest.mark.parametrize("scenario", [SPECULATING, SWAPPING, SPILLING, TRACED], ids=["sd", "swap", "spill", "traced"])
def test_the_parts_of_a_step_add_up_to_its_latency(scenario: Scenario) -> None:
    for record in records_of(scenario):
        parts = (record.draft_s, record.target_s, record.update_s, record.moved_s)
        assert sum(parts) == pytest.approx(record.latency_s)
        assert min(parts) >= 0
        assert (record.draft_s > 0) == (record.mode == "sd")
        assert (record.swap_s > 0) == (record.swap_j > 0) == bool(record.swaps)
        assert record.swap_s <= record.moved_s and record.swap_j < sum(record.energy_j)
        assert (record.moved_s > 0) == bool(record.swaps or record.spilled_tokens or record.fetched_tokens)


def test_experts_and_keys_are_moved_in_these_runs() -> None:
    assert any(record.swaps for record in records_of(SWAPPING))
    for scenario in (SPILLING, TRACED):
        assert any(record.spilled_tokens for record in records_of(scenario))


def test_sequences_are_counted_by_what_they_had_accepted() -> None:
    records = records_of(SPECULATING)
    assert {record.mode for record in records} == {"ar", "sd"}
    for record in records:
        assert sum(record.accepted_by) == record.drafts
        assert sum(count * n for count, n in enumerate(record.accepted_by)) == record.accepted


@examples(12)
@given(
    seed=st.integers(0, 10**6),
    mode=st.sampled_from(["fixed-ar", "tau", "cost"]),
    batching=st.sampled_from(["fcfs", "slo-aware", "topic-aware"]),
    rate_per_s=st.sampled_from([0.3, 3.0, 300.0]),
    seqs=st.sampled_from([1, 5, 40]),
)
def test_steps_made_at_once_are_those_made_one_by_one(
    seed: int, mode: str, batching: str, rate_per_s: float, seqs: int
) -> None:
    scenario = Scenario(mode=mode, batching=batching, max_num_seqs=seqs)
    requests = mixed(25, seed, rate_per_s)
    at_once, leapt = Simulator(scenario, leaps=True).serve(requests)
    one_by_one, made = Simulator(scenario, leaps=False).serve(requests)
    # To the last digit.
    assert [each.tokens_s for each in at_once] == [each.tokens_s for each in one_by_one]
    assert [each.started_s for each in at_once] == [each.started_s for each in one_by_one]
    assert sum(record.steps for record in leapt) == len(made)
    assert [record.start_s for record in leapt] == [made[i].start_s for i in first_steps(leapt)]
    for name in ("latency_s", "expert_hits", "target_s", "new_tokens", "queried_tokens", "slips"):
        assert sum(getattr(each, name) for each in leapt) == pytest.approx(sum(getattr(each, name) for each in made))
    assert sum(sum(each.energy_j) for each in leapt) == pytest.approx(sum(sum(each.energy_j) for each in made))


def first_steps(leapt: list[StepRecord]) -> list[int]:
    """Where each record's first step is among all steps."""
    return [0, *accumulate(record.steps for record in leapt)][:-1]

"""Does each step's record add up?"""

import dataclasses

import pytest

from serving.compare import mixed, run
from serving.flow import StepRecord
from serving.scenario import Scenario

SPECULATING = Scenario(mode="tau", tau=4, max_num_seqs=8, max_num_batched_tokens=8192)
SWAPPING = dataclasses.replace(SPECULATING, placement="topic", batching="topic-aware", mode="fixed-ar")
SPILLING = dataclasses.replace(SPECULATING, hardware="elmoe3d-4gb", kv_tier="hb", preemption="spill", max_num_seqs=256)


def records_of(scenario: Scenario) -> list[StepRecord]:
    requests = 200 if scenario is SPILLING else 40
    return run(scenario, mixed(requests, seed=1, rate_per_s=requests))[1]


@pytest.mark.parametrize("scenario", [SPECULATING, SWAPPING, SPILLING], ids=["sd", "swap", "spill"])
def test_the_parts_of_a_step_add_up_to_its_latency(scenario: Scenario) -> None:
    for record in records_of(scenario):
        parts = (record.draft_s, record.target_s, record.update_s, record.moved_s)
        assert sum(parts) == pytest.approx(record.latency_s)
        assert min(parts) >= 0
        assert (record.draft_s > 0) == (record.mode == "sd")
        assert (record.moved_s > 0) == bool(record.swaps or record.spilled_tokens or record.fetched_tokens)


def test_experts_and_keys_are_moved_in_these_runs() -> None:
    assert any(record.swaps for record in records_of(SWAPPING))
    assert any(record.spilled_tokens for record in records_of(SPILLING))


def test_sequences_are_counted_by_what_they_had_accepted() -> None:
    records = records_of(SPECULATING)
    assert {record.mode for record in records} == {"ar", "sd"}
    for record in records:
        assert sum(record.accepted_by) == record.drafts
        assert sum(count * n for count, n in enumerate(record.accepted_by)) == record.accepted

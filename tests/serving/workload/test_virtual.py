"""A workload in virtual time: what its prompts share is cached there."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from serving.reports.policy_comparison import run
from serving.scenario.scenario import Scenario
from serving.scenario.slo import parse_classes
from serving.workload import Source
from serving.workload.ask import Ask
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable
from serving.workload.virtual import SEED_BITS, request_of, seed_of


def served(system_tokens: int) -> tuple[int, int]:
    """Tokens looked up in the cache, and found there, of 20 requests with a system prompt."""
    tables = {"arrivals": {"kind": "poisson", "rate_per_s": 2}, "requests": 20, "prompt": 40, "output": 5}
    workload = workload_of(
        WorkloadTable(tables | {"system": {"tokens": system_tokens}, "slo": {"interactive": 1}}, None)
    )
    scenario = dataclasses.replace(Scenario(), max_num_seqs=16)
    classes = parse_classes(scenario.slo_classes, "slo_classes")
    requests = [request_of(ask, classes, scenario.block_tokens, 0) for ask in Source(workload)]
    outcomes, records = run(scenario, requests)
    assert len(outcomes) == 20 and all(len(outcome.tokens_s) == 5 for outcome in outcomes)
    return sum(record.queried_tokens for record in records), sum(record.cached_tokens for record in records)


def test_a_system_prompt_is_cached_and_what_is_said_once_is_not():
    queried, cached = served(system_tokens=160)
    assert queried == 20 * 200
    assert 10 * 160 <= cached <= 19 * 160 and cached % 160 == 0
    assert served(system_tokens=8)[1] == 0


@given(st.integers(0, 2**40), st.integers(0, 2**20), st.integers(1, 2**20))
def test_chance_is_another_with_each_seed_of_the_workload(session: int, one: int, more: int) -> None:
    ask = Ask(session, 0, 0.0, (), 1)
    assert 0 <= seed_of(ask, one) < 2**SEED_BITS
    assert seed_of(ask, one) != seed_of(ask, one + more)


def test_other_seeds_have_other_drafts_accepted() -> None:
    """Lengths and arrivals are the same with each."""
    tables = {"arrivals": {"kind": "constant", "rate_per_s": 4}, "requests": 40, "prompt": 40, "output": 40}
    scenario = dataclasses.replace(Scenario(), mode="fixed-sd")
    accepted = []
    for seed in range(3):
        source = Source(workload_of(WorkloadTable(tables, None)), seed)
        _, records = run(scenario, [request_of(ask, {}, 16, source.seed) for ask in source])
        accepted.append(sum(record.accepted for record in records))
    assert len(set(accepted)) > 1

"""A workload in virtual time: what its prompts share is cached there."""

import dataclasses

from serving.reports.policy_comparison import run
from serving.scenario.scenario import Scenario
from serving.scenario.slo import parse_classes
from serving.workload import Source
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable
from serving.workload.virtual import request_of


def served(system_tokens: int) -> tuple[int, int]:
    """Tokens looked up in the cache, and found there, of 20 requests with a system prompt."""
    tables = {"arrivals": {"kind": "poisson", "rate_per_s": 2}, "requests": 20, "prompt": 40, "output": 5}
    workload = workload_of(
        WorkloadTable(tables | {"system": {"tokens": system_tokens}, "slo": {"interactive": 1}}, None)
    )
    scenario = dataclasses.replace(Scenario(), max_num_seqs=16)
    classes = parse_classes(scenario.slo_classes, "slo_classes")
    requests = [request_of(ask, classes, scenario.block_tokens) for ask in Source(workload)]
    outcomes, records = run(scenario, requests)
    assert len(outcomes) == 20 and all(len(outcome.tokens_s) == 5 for outcome in outcomes)
    return sum(record.queried_tokens for record in records), sum(record.cached_tokens for record in records)


def test_a_system_prompt_is_cached_and_what_is_said_once_is_not():
    queried, cached = served(system_tokens=160)
    assert queried == 20 * 200
    assert 10 * 160 <= cached <= 19 * 160 and cached % 160 == 0
    assert served(system_tokens=8)[1] == 0

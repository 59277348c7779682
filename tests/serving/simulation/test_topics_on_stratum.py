"""Are batches on Stratum of one topic as far as the TTFT allows, and no further?"""

import dataclasses

import numpy as np
import pytest

from serving.scenario.scenario import Scenario
from serving.simulation.node import Outcome
from serving.simulation.simulator import Simulator
from serving.types import Request, StepRecord

TTFT_S = 0.5
FCFS = Scenario(
    hardware="stratum-s", model="olmoe-1b-7b", placement="topic", max_num_seqs=8, max_model_len=2048, patience_s=0.15
)
HELD = dataclasses.replace(FCFS, batching="topic-aware", topic_hold_s=0.2)


def arriving(rate_per_s: float, count: int = 150) -> list[Request]:
    """Requests of three topics, Poisson, who are promised their first token within `TTFT_S`."""
    rng = np.random.default_rng(7)
    at_s, topics = (
        np.cumsum(rng.exponential(1 / rate_per_s, count)).tolist(),
        rng.choice(["legal", "cs", "math"], count),
    )
    return [
        Request(str(i), at, int(rng.integers(30, 300)), 60, seed=i, topic=str(topic), ttft_s=TTFT_S)
        for i, (at, topic) in enumerate(zip(at_s, topics, strict=True))
    ]


def run(scenario: Scenario, rate_per_s: float) -> tuple[list[Outcome], list[StepRecord]]:
    return Simulator(scenario).serve(arriving(rate_per_s))


def hot_share(records: list[StepRecord]) -> float:
    decoding = [record for record in records if record.phase == "decode"]
    return sum(each.expert_hits for each in decoding) / sum(each.expert_lookups for each in decoding)


@pytest.mark.parametrize("rate_per_s", [8.0, 15.0])
def test_who_is_held_for_a_topic_finds_more_hot_experts_and_is_in_time(rate_per_s: float) -> None:
    (mixed, mixed_steps), (held, held_steps) = run(FCFS, rate_per_s), run(HELD, rate_per_s)
    assert hot_share(held_steps) > 1.02 * hot_share(mixed_steps)
    assert sum(each.ttft_s for each in held) > sum(each.ttft_s for each in mixed)
    assert max(each.ttft_s for each in held) <= TTFT_S


def test_patience_bounds_how_long_a_topic_is_preferred() -> None:
    """Where more arrives than can be served for a while, a short patience is kinder to the last than a long one."""
    hasty, patient = (
        run(dataclasses.replace(FCFS, batching="topic-aware", patience_s=patience_s), 40.0)[0]
        for patience_s in (0.05, 60.0)
    )
    late = [sum(each.ttft_s > TTFT_S for each in outcomes) for outcomes in (hasty, patient)]
    assert late[0] < late[1]

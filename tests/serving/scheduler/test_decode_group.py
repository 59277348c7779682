"""Are batches the same, to the last field, whether sequences that decode are gone through one by one or in lockstep?"""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.scheduler.config import PREEMPTION, PREFILL, SPILL, Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.types import Batch, Done, Request
from tests.examples import examples


class OneByOne(Scheduler):
    """Goes through all that run, always."""

    def _gather(self) -> None:
        pass


def requests(rng: Random, count: int, blocks: int) -> list[Request]:
    """Some begin alike, some were begun elsewhere."""
    return [
        Request(
            str(i),
            rng.uniform(0, 30),
            prompt := rng.choice([1, 5, 16, 17, 33, 64, rng.randint(1, 90)]),
            rng.randint(2, 60),
            released=rng.choice([0, 0, 0, 1]),
            seed=i,
            key=rng.choice("ab"),
            priority=rng.choice([0, 0, 1]),
            blocks=[(i % 3, place) for place in range(prompt // blocks)],  # type: ignore[misc]
        )
        for i in range(count)
    ]


def batches(scheduler: Scheduler, seed: int, drafts: bool, steps: int = 400) -> list[tuple[Batch, int]]:
    """What is planned while requests come, are aborted, draft, and the KV cache shrinks: all by chance."""
    rng = Random(seed)
    coming = sorted(requests(rng, 30, scheduler.kv.block_tokens), key=lambda each: each.arrival_s)
    at, last, done, planned = 0.0, -1.0, Done(), []
    for _ in range(steps):
        while coming and coming[0].arrival_s <= at:
            scheduler.submit(coming.pop(0))
        if rng.random() < 0.03:
            scheduler.abort(str(rng.randrange(30)))
        if rng.random() < 0.02:
            tokens = rng.choice([0.7, 1.0, 1.3]) * scheduler.limits.kv_capacity_tokens
            scheduler.limit(replace(scheduler.limits, kv_capacity_tokens=max(200, int(tokens))))
        batch = scheduler.plan(at, at, last, done)
        planned.append((batch, scheduler.kv.used))
        made = rng.randint(1, batch.horizon) if batch.ids else 0
        accepted: list[int] = []
        if drafts and made and rng.random() < 0.5:
            left = zip(batch.new_tokens, batch.emits, batch.remaining, strict=True)
            made, accepted = 1, [min(rng.randint(0, 3), rest - 1) if n == 1 and e else 0 for n, e, rest in left]
        finished = [rng.choice(batch.ids)] if batch.ids and rng.random() < 0.05 else []
        done = Done(made, accepted, finished)
        last, at = at, batch.start_s + 0.2 * max(1, made)
    return planned


@pytest.mark.slow
@examples(150)
@given(
    seed=st.integers(0, 10**9),
    tokens=st.sampled_from([6, 40, 512]),
    capacity=st.sampled_from([260, 700, 5000]),
    block=st.sampled_from([1, 16]),
    rules=st.builds(
        SchedulerRules,
        prefill=st.sampled_from(PREFILL),
        prefill_chunk=st.sampled_from([0, 7]),
        preemption=st.sampled_from(PREEMPTION),
        fairness=st.sampled_from(["none", "tokens"]),
        prefix_caching=st.booleans(),
        lookahead=st.sampled_from([0, 3]),
    ),
)
def test_a_scheduler_plans_the_same_with_and_without_lockstep(
    seed: int, tokens: int, capacity: int, block: int, rules: SchedulerRules
) -> None:
    spill = 300 if rules.preemption == SPILL else 0
    limits = Limits(12, tokens, capacity, block_tokens=block, spill_tokens=spill)
    one, other = (batches(kind(limits, rules), seed, rules.lookahead > 0) for kind in (OneByOne, Scheduler))
    assert one == other


@pytest.mark.parametrize("prefill", PREFILL)
def test_most_plans_go_through_nobody_who_decodes(prefill: str) -> None:
    scheduler = Scheduler(Limits(64, 512, 100_000), SchedulerRules(prefill=prefill))
    for i in range(32):
        scheduler.submit(Request(str(i), 0.0, 16, 40))
    done = Done()
    for at in range(30):
        done = Done(1 if scheduler.plan(float(at), float(at), at - 1.0, done).ids else 0)
    assert len(scheduler._together) == len(scheduler.running) == 32 and not scheduler._apart

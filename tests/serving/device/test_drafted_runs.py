"""Are steps that draft by one plan those that a plan for each would have made?"""

from dataclasses import replace

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from device_model.load import load_device
from serving.clock import VirtualClock
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.pricing import ModelPricer
from serving.device.slow_tier import SlowTier
from serving.device.token_buffer import TokenBuffer
from serving.policies.modes import Modes
from serving.policies.step_options import StepOptions
from serving.scheduler.config import Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.types import Batch, Chunk, Done, Release, Request

OPTIONS = StepOptions(load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic"))
DEPTH, FULL_SPEED = OPTIONS.calibrated, OPTIONS.device.ext_bytes_per_s
LOOKAHEAD = SchedulerRules(lookahead=DEPTH)


def pricer() -> ModelPricer:
    return ModelPricer(OPTIONS, Modes.of("fixed-sd", (DEPTH,)))


def test_a_plan_has_as_many_steps_as_surely_hold_and_each_goes_on_from_the_last() -> None:
    released, context, remaining, tokens = [7, 90], [1000, 50], [300, 400], 10 * (1 + DEPTH) + DEPTH
    batch = Batch(["a", "b"], [1, 1], context, [True, True], 0.0, [5, 6], released, remaining, horizon=tokens)
    steps = list(pricer().price(batch, FULL_SPEED))
    assert len(steps) == 10
    for step in steps:
        now = msgspec.structs.replace(
            batch, context=list(context), released=list(released), remaining=list(remaining), horizon=1
        )
        [alone] = pricer().price(now, FULL_SPEED)
        assert alone.plan is not None and step.plan is not None
        assert alone._replace(plan=None) == step._replace(plan=None)
        np.testing.assert_array_equal(alone.plan.context, step.plan.context)
        assert replace(alone.plan, context=step.plan.context).draft == step.plan.draft
        for index, more in enumerate(step.accepted):
            context[index] += 1 + more
            released[index] += 1 + more
            remaining[index] -= 1 + more
    assert len({tuple(step.accepted) for step in steps}) > 1


def test_what_a_step_costs_in_another_condition_is_asked_of_its_own_plan() -> None:
    batch = Batch(["a"], [1], [1000], [True], 0.0, [5], [7], [300], horizon=200)
    asked = pricer()
    *_, last = asked.price(batch, FULL_SPEED)
    assert asked.again(last, 12, FULL_SPEED) == last.cost


class EachAnew:
    """A scheduler that has a plan for each step."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler, self.plans = scheduler, 0

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        self.plans += 1
        return msgspec.structs.replace(self.scheduler.plan(at_s, now_s, last_s, done), horizon=1)


class AsItIs(EachAnew):
    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        self.plans += 1
        return self.scheduler.plan(at_s, now_s, last_s, done)


def played(kind: type[EachAnew], requests: list[Request], limits: Limits) -> tuple[list[tuple[object, ...]], int]:
    """What steps release, when and at which cost, until all requests have ended; and how many plans were made."""
    tokens, releases, scheduler = TokenBuffer(), list[Release](), Scheduler(limits, LOOKAHEAD)
    for request in requests:
        tokens.open(request.id)
        last = request.max_tokens - 1
        tokens.push([Chunk(request.id, i, [i], 1 if i == last else None) for i in range(request.max_tokens)])
        scheduler.submit(request)
    planner = kind(scheduler)
    engine = Engine(0, planner, pricer(), SlowTier(FULL_SPEED), tokens, releases.append)
    driver, ended = LiveDriver(engine, VirtualClock()), 0
    while ended < len(requests):
        driver.cycle()
        ended = sum(chunk.finish is not None for release in releases for chunk in release.chunks)
    records = [release.record for release in releases if release.record is not None]
    made = [
        (release.at_s, release.chunks, record.latency_s, record.energy_j, record.accepted, record.preemptions)
        for release, record in zip(releases, records, strict=True)
    ]
    return made, planner.plans


REQUESTS = st.lists(
    st.tuples(st.floats(0.0, 2.0), st.integers(1, 400), st.integers(1, 120), st.integers(0, 2**40)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=25)
@given(REQUESTS, st.sampled_from([2000, 10**5]))
def test_no_step_is_another_one_where_a_plan_holds_for_several(
    asked: list[tuple[float, int, int, int]], kv_tokens: int
) -> None:
    requests = [Request(str(i), at_s, prompt, most, seed=seed) for i, (at_s, prompt, most, seed) in enumerate(asked)]
    limits = Limits(4, 2048, kv_tokens)
    each, plans = played(EachAnew, requests, limits)
    several, fewer = played(AsItIs, requests, limits)
    assert several == each
    assert fewer <= plans


def test_one_alone_has_many_steps_of_a_plan() -> None:
    requests = [Request("a", 0.0, 100, 200, seed=1)]
    (_, plans), (_, fewer) = (played(kind, requests, Limits(4, 2048, 10**5)) for kind in (EachAnew, AsItIs))
    assert fewer < plans / 3

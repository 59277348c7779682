"""A step under way when its device's condition changes: is what is done done, and the rest made at the new pace?"""

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.condition import Condition
from device_model.load import load_device
from device_model.step import StepCost, StepPlan
from serving.clock import WallClock
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.pricing import StepPrice
from serving.device.slow_tier import SlowTier
from serving.device.step_underway import StepUnderway
from serving.device.token_buffer import TokenBuffer
from serving.policies.step_options import StepOptions
from serving.types import Batch, Done, Release

PLAN = StepPlan.of((1, 500), (64, 0))


def costs(draft: str | None, condition: Condition) -> StepCost:
    """A step in a condition, of a device that drafts as its draft was calibrated, if it has one."""
    options = StepOptions(load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", draft, condition))
    plan = StepPlan.of((1, 500), (1, 900)) if draft else PLAN
    [option] = options.price(plan, 1, None, (options.calibrated,))
    return option.costs.first


HEALTHY, SLOW = (costs(None, Condition(ext_share=share)) for share in (1.0, 0.01))
DRAFTING = tuple(costs("elastic", Condition(ext_share=share)) for share in (1.0, 0.01))


def test_a_step_in_which_nothing_changes_is_what_it_was() -> None:
    priced = StepPrice(HEALTHY)
    underway = StepUnderway(3.0, priced)
    assert underway.priced is priced and underway.end_s == 3.0 + HEALTHY.latency_s


def test_the_rest_is_made_at_the_new_pace() -> None:
    underway = StepUnderway(10.0, StepPrice(SLOW))
    underway.reprice(10.0 + 0.25 * SLOW.latency_s, HEALTHY)
    assert underway.end_s == pytest.approx(10.0 + 0.25 * SLOW.latency_s + 0.75 * HEALTHY.latency_s)
    cost = underway.priced.cost
    assert cost.energy.static_j == pytest.approx(0.25 * SLOW.energy.static_j + 0.75 * HEALTHY.energy.static_j)
    assert cost.traffic.ext_bytes == pytest.approx(HEALTHY.traffic.ext_bytes)


@given(
    changes=st.lists(st.tuples(st.floats(-1.0, 200.0), st.booleans()), max_size=6),
    moved=st.floats(0.0, 3.0),
    conditions=st.sampled_from([(HEALTHY, SLOW), DRAFTING]),
)
def test_whenever_it_changes_a_step_is_one_step(
    changes: list[tuple[float, bool]], moved: float, conditions: tuple[StepCost, StepCost]
) -> None:
    """It takes between what it would take at its quickest and at its slowest, no time runs back, and all adds up."""
    fast, slow = conditions
    moved_s = moved * fast.latency_s
    first = fast._replace(
        latency_s=fast.latency_s + moved_s,
        seconds=fast.seconds._replace(target_s=fast.seconds.target_s + moved_s),
    )
    underway = StepUnderway(5.0, StepPrice(first, moved_s=moved_s, swap_s=0.5 * moved_s, swap_j=0.1 * first.energy_j))
    for at, healthy in sorted(changes):
        at_s = 5.0 + at * fast.latency_s
        if at_s >= underway.end_s:
            break
        underway.reprice(at_s, fast if healthy else slow)
        assert underway.end_s >= at_s
    slowest = slow.latency_s * first.latency_s / fast.latency_s
    assert first.latency_s * 0.999 <= underway.end_s - 5.0 <= slowest * 1.001
    priced = underway.priced
    assert sum(priced.cost.seconds) == pytest.approx(priced.cost.latency_s)
    assert priced.cost.latency_s == pytest.approx(underway.end_s - 5.0)
    assert priced.cost.traffic == first.traffic
    assert 0 <= priced.moved_s <= priced.cost.seconds.target_s * (1 + 1e-9)
    drafts_s = sorted((fast.seconds.draft_s, slow.seconds.draft_s))
    assert drafts_s[0] * 0.999 <= priced.cost.seconds.draft_s <= drafts_s[1] * 1.001
    assert priced.swap_s == pytest.approx(0.5 * priced.moved_s)
    assert priced.swap_j == pytest.approx(0.1 * priced.cost.energy_j)


class Endless:
    """Plans one step, whose cost is another one when it is asked for again."""

    def __init__(self) -> None:
        self.told: list[Done] = []

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        self.told.append(done)
        return Batch(["a"], [1], [9], [True], at_s, horizon=1)

    def price(self, batch: Batch, ext_bytes_per_s: float) -> Iterator[StepPrice]:
        yield StepPrice(HEALTHY._replace(latency_s=1e9), plan=batch.plan)

    def again(self, priced: StepPrice, steps: int, ext_bytes_per_s: float) -> StepCost:
        return HEALTHY


def test_in_real_time_a_step_of_many_years_ends_soon_after_its_reason() -> None:
    planner, releases, clock = Endless(), list[Release](), WallClock(time.time())
    driver = LiveDriver(Engine(0, planner, planner, SlowTier(1e9), TokenBuffer(), releases.append), clock)
    driver.engine.at_s = clock.now()
    thread = threading.Thread(target=driver.cycle)
    thread.start()
    for _ in range(3):  # news that are none of its business
        time.sleep(0.1)
        driver.poke()
    assert not releases
    driver.change(clock.now())
    thread.join(5.0)
    (release,) = releases
    assert release.record is not None
    assert 0.3 < release.at_s < 2.0 and release.record.latency_s == pytest.approx(release.at_s - release.start_s)


def test_a_wait_that_was_interrupted_before_it_began_is_as_long_as_it_should_be() -> None:
    clock = WallClock(time.time())
    clock.interrupt()
    at, waits = clock.now() + 0.05, 0
    while clock.until(at) < 0:
        waits += 1
    assert waits <= 2 and clock.now() >= at

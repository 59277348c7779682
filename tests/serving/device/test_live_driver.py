"""Does a change of a device's condition take effect at its own instant, though the news of it comes later?"""

import math
from collections.abc import Iterator

import pytest

from device_model.step import StepCost
from serving.clock import VirtualClock
from serving.device.engine import Engine
from serving.device.live_driver import MAX_OWED, MOST_AWAITED_S, LiveDriver
from serving.device.pricing import StepPrice
from serving.device.slow_tier import SlowTier
from serving.device.token_buffer import TokenBuffer
from serving.types import NEVER, Batch, Done, Release
from tests.serving.device.test_step_underway import HEALTHY

STEP_S, SLOWER = 10.0, 4.0


class Steps:
    """Plans steps of `STEP_S`, which take `SLOWER` times as long in the device's new condition."""

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        return Batch(["a"], [1], [9], [True], at_s, horizon=1)

    def price(self, batch: Batch, ext_bytes_per_s: float) -> Iterator[StepPrice]:
        yield StepPrice(HEALTHY._replace(latency_s=STEP_S), plan=batch.plan)

    def again(self, priced: StepPrice, steps: int, ext_bytes_per_s: float) -> StepCost:
        return HEALTHY._replace(latency_s=SLOWER * STEP_S)


class Late(VirtualClock):
    """Interrupts the first wait at `told_s`, to say that the condition changed at `changed_s`."""

    def __init__(self, told_s: float, changed_s: float) -> None:
        super().__init__()
        self._told_s, self._changed_s, self._told = told_s, changed_s, False
        self.driver: LiveDriver | None = None

    def until(self, at_s: float) -> float:
        if self._told:
            return super().until(at_s)
        self._told = True
        super().until(self._told_s)
        assert self.driver is not None
        self.driver.change(self._changed_s)
        return self._told_s - at_s


@pytest.mark.parametrize("told_s", [2.0, 3.0, 9.5])
def test_news_of_a_change_that_come_late_reprice_the_step_from_the_change_on(told_s: float) -> None:
    releases, clock = list[Release](), Late(told_s, 2.0)
    clock.driver = LiveDriver(Engine(0, Steps(), Steps(), SlowTier(1e9), TokenBuffer(), releases.append), clock)
    clock.driver.cycle()
    assert [release.at_s for release in releases] == [2.0 + 0.8 * SLOWER * STEP_S]


class Lost(Steps):
    """Plans one step, and is lost."""

    def __init__(self) -> None:
        self._left = 1

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        self._left -= 1
        if self._left < 0:
            raise ConnectionResetError("the scheduler is gone")
        return super().plan(at_s, now_s, last_s, done)


def test_what_was_held_back_goes_out_before_each_wait_and_when_the_scheduler_is_lost() -> None:
    planner, held, sent = Lost(), list[Release](), list[Release]()

    def flush() -> None:
        sent.extend(held)
        held.clear()

    driver = LiveDriver(Engine(0, planner, planner, SlowTier(1e9), TokenBuffer(), held.append), VirtualClock(), flush)
    driver.cycle()
    assert len(held) == 1 and not sent
    with pytest.raises(ConnectionResetError):
        driver.cycle()
    assert len(sent) == 1 and not held


class Posted:
    """A board of arrivals with one request's, until it has been looked at so often."""

    def __init__(self, at_s: float, looks: int) -> None:
        self.at_s, self.left = at_s, looks

    def earliest_s(self, since_s: float) -> float:
        self.left -= 1
        return self.at_s if self.left >= 0 and self.at_s > since_s else NEVER


class Planned(Steps):
    """Notes when it was asked to plan."""

    def __init__(self) -> None:
        self.asked_s = list[float]()

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        self.asked_s.append(now_s)
        return super().plan(at_s, now_s, last_s, done)


@pytest.mark.parametrize(
    ("came_s", "looks", "waited"),
    [(-0.005, 4, True), (-0.005, 10**9, True), (0.005, 4, False), (-0.5, 10**9, False)],
)
def test_a_device_waits_a_moment_for_who_came_by_the_end_of_its_step(came_s: float, looks: int, waited: bool) -> None:
    """... and after that it plans, whoever is still on his way, early enough for the step to end when it should."""
    planner, clock, releases = Planned(), VirtualClock(), list[Release]()
    board = Posted(STEP_S + came_s, looks)
    engine = Engine(0, planner, planner, SlowTier(1e9), TokenBuffer(), releases.append)
    driver = LiveDriver(engine, clock, arriving_s=board.earliest_s)
    for _ in range(2):
        driver.cycle()
    late_s = planner.asked_s[1] - STEP_S
    assert 0 <= late_s <= MOST_AWAITED_S * 1.001
    assert (late_s > 0) is waited
    assert [release.at_s for release in releases] == [STEP_S, 2 * STEP_S]


class Standing(VirtualClock):
    """Stands while one waits, until the driver is left at the third wait."""

    def __init__(self) -> None:
        super().__init__()
        self.driver: LiveDriver | None = None
        self._waits = 0

    def wait(self, at_s: float) -> None:
        self._waits += 1
        assert self.driver is not None and self._waits < 9
        if self._waits == 3:
            self.driver.leave()


def test_a_stall_that_is_moved_into_the_past_is_over_now_and_not_then() -> None:
    """As where a fault stalls a device that is paused, and the pause outlasts it: no step is to be caught up with."""
    planner, clock = Lost(), VirtualClock()
    driver = LiveDriver(Engine(0, planner, planner, SlowTier(1e9), TokenBuffer(), lambda release: None), clock)
    driver.stall(math.inf)
    clock.until(100.0)
    driver.stall(80.0)
    assert driver.engine.stalled_until_s == 100.0
    driver.stall(80.0)  # told again, as the news of it may have got lost
    assert driver.engine.stalled_until_s == 100.0
    driver.stall(0.0)  # of one that does not stand still nothing is changed
    assert driver.engine.stalled_until_s == 0.0


@pytest.mark.parametrize("stalled", [True, False])
def test_a_driver_that_is_left_waits_neither_for_the_end_of_a_stall_nor_for_tokens(stalled: bool) -> None:
    """Nobody would tell it of either: its loop would go on beside that of the driver in its place."""
    planner, clock, tokens = Lost(), Standing(), TokenBuffer()
    tokens.open("a")
    tokens.take({"a": 0 if stalled else MAX_OWED})
    driver = clock.driver = LiveDriver(Engine(0, planner, planner, SlowTier(1e9), tokens, lambda release: None), clock)
    if stalled:
        driver.stall(1e12)
    driver.cycle()
    with pytest.raises(ConnectionResetError):
        driver.cycle()

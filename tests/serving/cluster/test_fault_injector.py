"""Is nothing left of faults once they are cleared, whatever came between?"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.condition import HEALTHY, Condition
from serving.cluster.fault_injector import FaultInjector
from serving.cluster.node import State
from serving.scenario.faults import KINDS, LOST, STALL, Fault
from serving.scenario.refused_action import RefusedAction, UnknownTarget

DEVICES = 4


class Devices:
    """Four devices, two on a tier, that take their time about everything."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.nodes = {index: SimpleNamespace(index=index, state=State.SERVING) for index in range(DEVICES)}
        self.conditions = dict.fromkeys(self.nodes, HEALTHY)
        self.since_s: dict[int, list[float]] = {index: [] for index in self.nodes}
        self.stalled_until = dict.fromkeys(self.nodes, 0.0)
        self.active: Counter[tuple[int, str]] = Counter()
        self.observer = self

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        self.active[device, kind] += 1 if begins else -1
        assert self.active[device, kind] >= 0

    async def _takes(self) -> None:
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)

    @property
    def present(self) -> list[Any]:
        return [node for node in self.nodes.values() if node.state is not State.GONE]

    def at(self, index: int) -> Any:
        if self.nodes[index].state is State.GONE:
            raise UnknownTarget(f"There is no device {index}.")
        return self.nodes[index]

    def tier(self, index: int) -> range:
        return range(index - index % 2, index - index % 2 + 2)

    async def check(self, index: int, condition: Condition) -> None:
        await self._takes()

    async def degrade(self, index: int, condition: Condition, at_s: float) -> None:
        await self._takes()
        if condition.hb_share < 0.02:
            raise RefusedAction("There would be no bank left.")
        self.conditions[self.at(index).index] = condition
        self.since_s[index].append(at_s)

    def stall(self, index: int, until_s: float) -> None:
        self.stalled_until[index] = until_s

    def check_loss(self, index: int) -> None:
        if self.at(index).state is not State.SERVING:
            raise RefusedAction(f"Device {index} is lost.")
        if sum(node.state is State.SERVING for node in self.present) < 2:
            raise RefusedAction("It is the last one.")

    def is_last(self, index: int) -> bool:
        return not any(node.state is State.SERVING for node in self.present if node.index != index)

    async def lose(self, index: int) -> None:
        self.check_loss(index)
        self.nodes[index].state = State.LOST
        await self._takes()

    async def revive(self, index: int) -> None:
        if self.at(index).state is State.LOST:
            self.nodes[index].state = State.STARTING
            await self._takes()
            self.nodes[index].state = State.SERVING


faults = st.builds(
    Fault,
    kind=st.sampled_from(KINDS),
    left=st.sampled_from([0.01, 0.5]),
    device=st.none() | st.integers(0, DEVICES - 1),
    at_s=st.sampled_from([0.0, 0.0, 1.0, 3.0]),
    for_s=st.sampled_from([1.0, 2.0, float("inf")]),
    rate_per_minute=st.sampled_from([0.0, 0.0, 60.0]),
).map(lambda fault: fault._replace(device=fault.device or 0) if fault.kind == LOST else fault)
faults = faults.map(
    lambda fault: fault._replace(for_s=min(fault.for_s, 5.0), at_s=0.0) if fault.rate_per_minute else fault
)
faults = faults.map(lambda fault: fault._replace(for_s=min(fault.for_s, 90.0)) if fault.kind == STALL else fault)
acts = st.lists(
    st.one_of(
        faults,
        st.tuples(st.sampled_from(["clear", "wait", "turns", "go_away", "remove"]), st.integers(0, 5)),
    ),
    max_size=16,
)


class Player:
    """Does one thing after the other, and does not wait for all of them; whoever asks may go away before an answer."""

    def __init__(self, devices: Devices, injector: FaultInjector, clock: list[float]) -> None:
        self._devices, self._injector, self._clock = devices, injector, clock
        self._asked: list[asyncio.Task[Any]] = []

    async def play(self, what: Iterable[Any]) -> None:
        for act in what:
            if isinstance(act, Fault):
                await self._ask(self._injector.inject(act))
            else:
                await getattr(self, act[0])(act[1])
        for answer in await asyncio.gather(*self._asked, return_exceptions=True):
            assert not isinstance(answer, Exception) or isinstance(answer, RefusedAction), answer

    async def _ask(self, change: Coroutine[Any, Any, Any]) -> None:
        self._asked.append(asyncio.create_task(change))
        await asyncio.sleep(0)

    async def wait(self, number: int) -> None:
        self._clock[0] += number
        await asyncio.sleep(0.003)

    async def turns(self, number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)

    async def clear(self, number: int) -> None:
        if told := list(self._injector.faults):
            await self._ask(self._injector.clear(told[number % len(told)]))

    async def go_away(self, number: int) -> None:
        if self._asked:
            self._asked[-1 - number % len(self._asked)].cancel()

    async def remove(self, number: int) -> None:
        self._devices.nodes[max(1, number % DEVICES)].state = State.GONE


async def looks() -> None:
    """Let the injector look at its clock some 20 times.

    By many short waits: a machine that stands still for as long as one long wait would end it before the injector's
    turn.
    """
    for _ in range(20):
        await asyncio.sleep(0.001)


async def clear_all(injector: FaultInjector) -> None:
    while injector.faults:
        await injector.clear(next(iter(injector.faults)))
    await looks()


@given(what=acts, seed=st.integers(0, 99))
def test_when_all_faults_are_cleared_all_devices_are_healthy(what: list[Any], seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("serving.cluster.fault_injector.LOOK_S", 0.001)

        async def run() -> None:
            devices, clock = Devices(seed), [0.0]
            injector = FaultInjector(devices, SimpleNamespace(now=lambda: clock[0]), seed)  # type: ignore[arg-type]
            await Player(devices, injector, clock).play(what)
            await clear_all(injector)
            for node in devices.present:
                assert node.state is State.SERVING
                assert devices.conditions[node.index] == HEALTHY
                assert devices.stalled_until[node.index] <= clock[0]
                assert not injector.active.on(node.index)
                assert all(devices.active[node.index, kind] == 0 for kind in KINDS)
                assert not injector.active.stalled_until_s(node.index)

        asyncio.run(run())


def at_once(check: Callable[[Devices, FaultInjector], Any]) -> None:
    async def run() -> None:
        devices = Devices(1)
        await check(devices, FaultInjector(devices, SimpleNamespace(now=lambda: 5.0), 0))  # type: ignore[arg-type]

    asyncio.run(run())


def test_a_tier_is_mended_though_the_device_that_the_fault_was_told_of_is_gone() -> None:
    async def check(devices: Devices, injector: FaultInjector) -> None:
        told = await injector.inject(Fault("lpddr", 0.5, device=0))
        assert devices.conditions[1].ext_share == 0.5
        devices.nodes[0].state = State.GONE
        await injector.clear(told.id)
        assert devices.conditions[1] == HEALTHY

    at_once(check)


def test_what_one_device_of_a_tier_refuses_leaves_no_other_in_it() -> None:
    class Picky(Devices):
        async def degrade(self, index: int, condition: Condition, at_s: float) -> None:
            if index == 1 and condition.ext_share < 1:
                raise RefusedAction("There would be no bank left.")
            await super().degrade(index, condition, at_s)

    async def run() -> None:
        devices = Picky(1)
        injector = FaultInjector(devices, SimpleNamespace(now=lambda: 5.0), 0)  # type: ignore[arg-type]
        with pytest.raises(RefusedAction):
            await injector.inject(Fault("lpddr", 0.5, device=0))
        assert devices.conditions[0] == HEALTHY and not injector.active.on(0) and not injector.faults

    asyncio.run(run())


def test_of_devices_in_a_fault_one_may_depart_while_it_begins_or_ends_and_the_others_begin_and_end() -> None:
    class Departing(Devices):
        leaving = 2

        async def degrade(self, index: int, condition: Condition, at_s: float) -> None:
            self.at(index)
            if index == self.leaving:
                self.nodes[index].state = State.GONE
            await super().degrade(index, condition, at_s)

    async def run() -> None:
        devices = Departing(1)
        injector = FaultInjector(devices, SimpleNamespace(now=lambda: 5.0), 0)  # type: ignore[arg-type]
        slow = await injector.inject(Fault("slow", 0.5))
        assert [devices.conditions[index] == HEALTHY for index in range(DEVICES)] == [False, False, True, False]
        # As the fault ends, the first of a tier departs as well.
        devices.leaving = 0
        await injector.clear(slow.id)
        assert {devices.conditions[node.index] for node in devices.present} == {HEALTHY}
        assert [node.index for node in devices.present] == [1, 3] and not +devices.active

    asyncio.run(run())


def test_a_device_that_does_not_come_up_at_the_end_of_its_loss_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Slow(Devices):
        refused = 0

        async def revive(self, index: int) -> None:
            self.refused += 1
            if self.refused <= 2:
                raise RefusedAction(f"Device {index} did not come up: there is no room.")
            await super().revive(index)

    async def run() -> None:
        devices = Slow(1)
        injector = FaultInjector(devices, SimpleNamespace(now=lambda: 5.0), 0)  # type: ignore[arg-type]
        told = await injector.inject(Fault(LOST, device=2))
        await injector.clear(told.id)
        assert devices.nodes[2].state is State.LOST and not injector.faults
        while devices.nodes[2].state is not State.SERVING:
            await asyncio.sleep(0.001)
        assert caplog.text.count("Device 2 stays lost, and will be tried again: Device 2 did not come up") == 2

    asyncio.run(asyncio.wait_for(run(), 10.0))


def test_whoever_clears_a_fault_and_goes_away_has_cleared_it() -> None:
    async def check(devices: Devices, injector: FaultInjector) -> None:
        told = await injector.inject(Fault("clock", 0.5))
        asked = asyncio.create_task(injector.clear(told.id))
        await asyncio.sleep(0)
        asked.cancel()
        await looks()
        assert not injector.faults and set(devices.conditions.values()) == {HEALTHY}

    at_once(check)


def test_a_fault_that_is_cleared_while_it_begins_does_not_begin_on_more_devices() -> None:
    async def check(devices: Devices, injector: FaultInjector) -> None:
        begun = asyncio.create_task(injector.inject(Fault("clock", 0.5)))
        lost = asyncio.create_task(injector.inject(Fault(LOST, device=2)))
        while len(injector.faults) < 2:
            await asyncio.sleep(0)
        await asyncio.gather(*map(injector.clear, list(injector.faults)))
        await asyncio.gather(begun, lost)
        assert {node.state for node in devices.present} == {State.SERVING}
        assert max(devices.stalled_until.values()) <= 5.0 and not +devices.active

    at_once(check)


def test_a_device_that_is_lost_does_not_stand_still_and_is_back_without_a_stall() -> None:
    """As in virtual time (`ActiveFaults`): a stall that came while it was gone would hold it up once it is back."""

    async def check(devices: Devices, injector: FaultInjector) -> None:
        lost = await injector.inject(Fault(LOST, device=2))
        stall = await injector.inject(Fault(STALL, for_s=5.0))
        assert sorted(injector.active.of(stall.id).values()) == [0, 1, 3]
        await injector.clear(lost.id)
        assert devices.nodes[2].state is State.SERVING and not devices.stalled_until[2]
        assert not injector.active.stalled_until_s(2)

    at_once(check)


async def settled(clock: list[float], at_s: float) -> None:
    """Let the clock jump to an instant, and the injector see it."""
    clock[0] = at_s
    await looks()


def late(check: Callable[[Devices, FaultInjector, list[float]], Any]) -> None:
    """Run with a clock that jumps: the injector wakes long after what it was to do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("serving.cluster.fault_injector.LOOK_S", 0.001)

        async def run() -> None:
            devices, clock = Devices(1), [5.1]
            await check(devices, FaultInjector(devices, SimpleNamespace(now=lambda: clock[0]), 0), clock)  # type: ignore[arg-type]

        asyncio.run(run())


def test_a_fault_takes_effect_at_its_own_instant_however_late_the_injector_wakes() -> None:
    async def check(devices: Devices, injector: FaultInjector, clock: list[float]) -> None:
        await injector.inject(Fault("lpddr", 0.5, device=0, at_s=0.3, for_s=0.7))
        await settled(clock, 6.0)
        assert devices.since_s == {0: [5.1 + 0.3], 1: [5.1 + 0.3], 2: [], 3: []}
        await settled(clock, 9.0)
        assert devices.since_s[0] == devices.since_s[1] == [5.1 + 0.3, 5.1 + 0.3 + 0.7]
        assert not injector.faults and set(devices.conditions.values()) == {HEALTHY}

    late(check)


def test_a_stall_lasts_to_its_own_end_however_late_the_injector_wakes() -> None:
    async def check(devices: Devices, injector: FaultInjector, clock: list[float]) -> None:
        await injector.inject(Fault(STALL, device=0, at_s=0.3, for_s=0.7))
        await settled(clock, 5.9)
        assert devices.stalled_until[0] == 5.1 + 0.3 + 0.7
        await settled(clock, 6.2)
        assert not injector.faults and devices.stalled_until[0] == 5.1 + 0.3 + 0.7

    late(check)


def test_a_fault_that_is_cleared_ends_at_that_instant() -> None:
    async def check(devices: Devices, injector: FaultInjector, clock: list[float]) -> None:
        throttled = await injector.inject(Fault("lpddr", 0.5, device=0))
        stalled = await injector.inject(Fault(STALL, device=2, for_s=9.0))
        clock[0] = 7.5
        for told in (throttled, stalled):
            await injector.clear(told.id)
        assert devices.since_s[0] == [5.1, 7.5] and devices.stalled_until[2] == 0.0

    late(check)


def test_a_device_that_joins_a_throttled_tier_starts_throttled() -> None:
    async def check(devices: Devices, injector: FaultInjector) -> None:
        devices.nodes[1].state = State.GONE
        told = await injector.inject(Fault("lpddr", 0.5, device=0))
        await injector.inject(Fault("clock", 0.5))
        devices.nodes[1].state = State.STARTING
        await injector.reach(1)
        assert devices.conditions[1] == Condition(ext_share=0.5)
        await injector.clear(told.id)
        assert devices.conditions[1] == HEALTHY

    at_once(check)


def test_of_two_faults_that_are_due_the_earlier_one_comes_first_also_if_the_later_one_looks_first() -> None:
    async def check(devices: Devices, injector: FaultInjector, clock: list[float]) -> None:
        later = await injector.inject(Fault(LOST, device=0, at_s=0.2))
        first = await injector.inject(Fault(LOST, device=0, at_s=0.1))
        await settled(clock, 6.0)
        assert injector.active.of(first.id) == {0: 0} and not injector.active.of(later.id)

    late(check)


def test_the_loss_of_a_device_already_lost_passes_as_in_virtual_time(caplog: pytest.LogCaptureFixture) -> None:
    async def check(devices: Devices, injector: FaultInjector, clock: list[float]) -> None:
        first = await injector.inject(Fault(LOST, device=0, at_s=0.1))
        second = await injector.inject(Fault(LOST, device=0, at_s=0.2))
        await settled(clock, 6.0)
        assert devices.nodes[0].state is State.LOST
        assert injector.active.of(first.id) == {0: 0} and not injector.active.of(second.id)
        await injector.clear(first.id)
        assert devices.nodes[0].state is State.SERVING and not +devices.active

    late(check)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "passes device 0 by: it is lost" in caplog.text

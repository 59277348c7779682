"""Fault injection: carries faults out on running devices, when they are due on the emulated clock."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from device_model.condition import HEALTHY
from serving.cluster.device_manager import Devices
from serving.cluster.node import State
from serving.process.background import BackgroundTasks
from serving.process.backoff import Backoff
from serving.scenario.active_faults import ActiveFaults, Effect, FaultAction
from serving.scenario.faults import LOST, STALL, Fault, FaultEvent, events
from serving.scenario.refused_action import RefusedAction, UnknownTarget

log = logging.getLogger("foreserve")

# Real seconds between two looks at the emulated clock: faults need no better.
LOOK_S = 0.02


class EmulatedTime(Protocol):
    """A clock that tells the emulated time."""

    def now(self) -> float: ...


@dataclass(slots=True)
class InjectedFault:
    """An injected fault, until it is over; `told_at_s` is the emulated instant of its injection."""

    id: int
    fault: Fault
    told_at_s: float
    task: "asyncio.Task[None] | None" = None
    # Held while the fault begins or ends, so that begins and ends come one after the other, each whole.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class FaultInjector:
    """The injected faults, by id; the devices' observer hears of each begin and end."""

    def __init__(self, devices: Devices, clock: EmulatedTime, seed: int) -> None:
        self.faults: dict[int, InjectedFault] = {}
        self._devices = devices
        self._clock = clock
        self._seed = seed
        self._told = 0
        self.active = ActiveFaults(devices.tier)
        # Held while conditions change, so that two changes of one device come one after the other.
        self._lock = asyncio.Lock()
        # The instants of the events that faults wait for, each with its fault's id.
        self._waiting: set[tuple[float, int]] = set()
        self._changes, self._revivals = BackgroundTasks(RefusedAction), BackgroundTasks()

    async def inject(self, fault: Fault) -> InjectedFault:
        """Inject a fault, whose times count from now on. Raise RefusedAction, and change nothing, if it could not
        come."""
        return await self._whole(self._inject(fault))

    async def clear(self, id: int) -> InjectedFault:
        """End a fault and its effects. Raise UnknownTarget if there is none with this id."""
        if id not in self.faults:
            there = ", ".join(map(str, self.faults)) or "none"
            raise UnknownTarget(f"There is no fault {id}; those that there are: {there}.")
        return await self._whole(self._clear(self.faults.pop(id)))

    async def reach(self, device: int) -> None:
        """Put a device that starts into the condition in which active faults leave it: those of a slow tier that it
        shares were there before it. Raise RefusedAction if it cannot be in it."""
        async with self._lock:
            if (condition := self.active.condition(device)) != HEALTHY:
                await self._devices.degrade(device, condition, self._clock.now())

    async def _whole(self, change: Coroutine[None, None, InjectedFault]) -> InjectedFault:
        """Carry out a change as a whole, also if its caller goes away meanwhile."""
        return await asyncio.shield(self._changes.start(change))

    async def _inject(self, fault: Fault) -> InjectedFault:
        targets = self._targets(fault)
        for device in targets:
            await self._check(fault, device)
        injected = self.faults[self._told] = InjectedFault(self._told, fault, self._clock.now())
        self._told += 1
        coming = events(fault, targets, self._seed + injected.id, injected.told_at_s)
        event = next(coming, None)
        try:
            while event is not None and event.at_s <= injected.told_at_s:
                await self._happen(injected, event)
                event = next(coming, None)
        except RefusedAction:
            if self.faults.pop(injected.id, None):
                await self._clear(injected)
            raise
        if self._is_told(injected):
            rest = coming if event is None else chain([event], coming)
            injected.task = asyncio.create_task(self._drive(injected, rest))
        return injected

    async def _clear(self, injected: InjectedFault) -> InjectedFault:
        """End all occurrences of a fault that is no longer in `faults`."""
        async with injected.lock:  # An occurrence that is beginning is ended once it has begun.
            if injected.task is not None:
                injected.task.cancel()
            for number, device in self.active.of(injected.id).items():
                at_s = self._clock.now()
                if effect := self.active.end(injected.id, number, at_s):
                    await self._end(injected.fault, device, effect, at_s)
        return injected

    def _is_told(self, injected: InjectedFault) -> bool:
        """Tell whether a fault has not been cleared."""
        return self.faults.get(injected.id) is injected

    def stop(self) -> None:
        """Let no fault begin or end any more."""
        self._revivals.stop()
        for injected in self.faults.values():
            if injected.task is not None:
                injected.task.cancel()

    def _targets(self, fault: Fault) -> list[int]:
        if fault.device is not None:
            return [self._devices.at(fault.device).index]
        return [node.index for node in self._devices.present]

    async def _check(self, fault: Fault, device: int) -> None:
        """Raise RefusedAction if a fault could not come now."""
        if fault.kind == LOST:
            self._devices.check_loss(device)
        elif fault.kind != STALL:
            await self._devices.check(device, self.active.condition(device, fault))

    async def _drive(self, injected: InjectedFault, coming: Iterable[FaultEvent]) -> None:
        for event in coming:
            await self._until(event.at_s, injected.id)
            try:
                await self._happen(injected, event)
            except RefusedAction as error:
                what = "come" if event.begins else "end"
                log.error("The fault %r could not %s: %s", str(injected.fault), what, error)
            except Exception:
                # Others come, and end, all the same.
                log.exception("The fault %r could not be carried out.", str(injected.fault))
        if not self.active.of(injected.id):
            self.faults.pop(injected.id, None)

    async def _until(self, at_s: float, id: int) -> None:
        """Wait until an event of a fault is due; one that another fault has before it goes first, as in virtual
        time."""
        due = at_s, id
        self._waiting.add(due)
        try:
            # Sleep once in any case: a fault that comes more often than it can be carried out must not block the loop.
            await asyncio.sleep(LOOK_S)
            while self._clock.now() < at_s:
                await asyncio.sleep(LOOK_S)
            # A fault with an earlier event may have looked just before the clock got here: its next look comes first.
            if min(self._waiting) < due:
                await asyncio.sleep(LOOK_S)
        finally:
            self._waiting.remove(due)

    async def _happen(self, injected: InjectedFault, event: FaultEvent) -> None:
        async with injected.lock:
            state = self._devices.nodes[event.device].state
            if event.begins and (state is State.GONE or not self._is_told(injected)):
                return
            lost, last = state is State.LOST, self._devices.is_last(event.device)
            effect = self.active.happen(injected.id, injected.fault, event, lost, last)
            if effect is None and event.begins:
                sentence = "The fault %r passes device %d by: it is lost, or the last one that serves."
                log.warning(sentence, str(injected.fault), event.device)
            elif effect is not None and event.begins:
                await self._begin(injected, event, effect)
            elif effect is not None:
                await self._end(injected.fault, event.device, effect, event.at_s)

    async def _begin(self, injected: InjectedFault, event: FaultEvent, effect: Effect) -> None:
        """Carry out what the begin of an occurrence does, and tell of it. Raise RefusedAction, and have it not
        begun."""
        try:
            await self._carry_out(effect, event.at_s)
        except RefusedAction:
            if undone := self.active.end(injected.id, event.number):
                await self._restore(undone, event.at_s)
            raise
        self._devices.observer.on_fault(event.device, injected.fault.kind, True)
        if self._devices.nodes[event.device].state is State.GONE:
            # It was draining, and is not there any more when this ends.
            self._devices.observer.on_fault(event.device, injected.fault.kind, False)

    async def _end(self, fault: Fault, device: int, effect: Effect, at_s: float) -> None:
        """Tell of an occurrence that has ended, and carry out what its end does."""
        if self._devices.nodes[device].state is not State.GONE:
            self._devices.observer.on_fault(device, fault.kind, False)
        await self._carry_out(effect, at_s)

    async def _carry_out(self, effect: Effect, at_s: float) -> None:
        """Do what an event does, from `at_s` on, to those of its devices that are not gone."""
        if effect.act is FaultAction.CHANGE:
            async with self._lock:
                for index in self._present(effect):
                    with contextlib.suppress(UnknownTarget):  # gone meanwhile; the others are there
                        await self._devices.degrade(index, self.active.condition(index), at_s)
            return
        for index in self._present(effect):
            if effect.act is FaultAction.STALL:
                self._devices.stall(index, self.active.stalled_until_s(index))
            elif effect.act is FaultAction.LOSE:
                await self._devices.lose(index)
            elif not await self._revived(index):
                self._revivals.start(self._revive(index))

    async def _revive(self, index: int) -> None:
        """Try to start a lost device again until it comes up: no other fault's end would."""
        backoff, revived = Backoff(), False
        while not revived:
            await asyncio.sleep(backoff.failed(time.monotonic()))
            revived = await self._revived(index)

    async def _revived(self, index: int) -> bool:
        """Start a lost device again; tell whether it is lost no longer."""
        try:
            await self._devices.revive(index)
        except UnknownTarget:
            return True
        except RefusedAction as error:
            log.error("Device %d stays lost, and will be tried again: %s", index, error)
            return False
        return True

    async def _restore(self, undone: Effect, at_s: float) -> None:
        """Put the devices that had already taken up what another one refused back into their conditions."""
        if undone.act is FaultAction.CHANGE:
            async with self._lock:
                for index in self._present(undone):
                    with contextlib.suppress(RefusedAction):
                        await self._devices.degrade(index, self.active.condition(index), at_s)

    def _present(self, effect: Effect) -> list[int]:
        return [node.index for node in self._devices.present if node.index in effect.devices]

"""The watchdog asks a part that is well only now and then, one that is not at once, and ends one that is stopped."""

import asyncio
import math
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

import pytest

from serving.cluster import watchdog
from serving.cluster.actor_process import ActorProcess
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.cluster.watchdog import PartState, Watchdog
from serving.types import DroppedMessages
from tests.patience import PATIENCE_S

HERE = "this node"


class Sleeper:
    """A part whose process sleeps; it answers for as long as that is not stopped, and is gone once it has ended."""

    name, patience_s = "sleeper", math.inf

    def __init__(self, *command: str) -> None:
        self.child = subprocess.Popen(command or ["sleep", "60"])
        self.asked, self.stops, self.ended = 0, 0, asyncio.Event()
        self.overdue_s, self.mute, self.dropped = 0.0, False, 0

    @property
    def key(self) -> Hashable:
        return self.child.pid

    async def pulse(self) -> Heartbeat:
        self.asked += 1
        process = await self.process()
        while self.mute or process.stopped():
            await asyncio.sleep(0.01)
        dropped = DroppedMessages(self.dropped, "it is none") if self.dropped else None
        return Heartbeat(process, self.overdue_s, dropped)

    async def process(self) -> ActorProcess:
        return ActorProcess(HERE, self.child.pid)

    async def end(self, process: ActorProcess) -> None:
        os.kill(process.pid, signal.SIGKILL)
        self.ended.set()

    def note_stopped(self) -> None:
        self.stops += 1

    def note_death(self) -> None:
        pass


@pytest.fixture
def hundredfold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watchdog of a hundred times the pace."""
    monkeypatch.setattr("serving.cluster.actor_process.this_node", lambda: HERE)
    for name in ("LOOK_S", "ASK_S", "STOPPED_S", "SILENT_S", "BUSY_S"):
        monkeypatch.setattr(watchdog, name, getattr(watchdog, name) / 100)


@asynccontextmanager
async def watched(*command: str) -> AsyncIterator[tuple[Sleeper, Watchdog]]:
    part = Sleeper(*command)
    watch = Watchdog(lambda: [part])
    watch.start()
    try:
        yield part, watch
    finally:
        watch.stop()
        part.child.kill()
        part.child.wait()


async def until(there: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not there():
            await asyncio.sleep(watchdog.LOOK_S)


@pytest.mark.usefixtures("hundredfold")
def test_a_part_that_is_well_is_looked_at_more_often_than_asked() -> None:
    async def play() -> None:
        async with watched() as (part, watch):
            began_s = time.monotonic()
            await until(lambda: part.asked >= 10)
            # Its process is known from the first answer; until then it may be asked at each look.
            assert part.asked <= (time.monotonic() - began_s) / watchdog.ASK_S + 2
            assert watch.states() == {"sleeper": "up"} and not part.ended.is_set()

    asyncio.run(play())


@pytest.mark.usefixtures("hundredfold")
def test_a_part_that_is_stopped_is_asked_at_once_and_ended() -> None:
    async def play() -> None:
        async with watched() as (part, watch):
            await asyncio.sleep(3 * watchdog.LOOK_S)
            os.kill(part.child.pid, signal.SIGSTOP)
            await until(part.ended.is_set)
            assert part.stops == 1
            await until(lambda: watch.states() == {"sleeper": "down"})

    asyncio.run(play())


@pytest.mark.usefixtures("hundredfold")
def test_a_standby_that_is_promoted_is_watched_as_what_it_has_become() -> None:
    async def play() -> None:
        standby = Sleeper()
        promoted = Sleeper.__new__(Sleeper)
        promoted.__dict__ |= standby.__dict__ | {"name": "promoted"}
        present = [standby]
        watch = Watchdog(lambda: present)
        watch.start()
        try:
            await until(lambda: watch.states() == {"sleeper": "up"})
            present[:] = [promoted]
            await until(lambda: watch.states() == {"promoted": "up"})
            os.kill(standby.child.pid, signal.SIGSTOP)
            await until(promoted.ended.is_set)
            assert (standby.stops, promoted.stops) == (0, 1)
        finally:
            watch.stop()
            standby.child.kill()
            standby.child.wait()

    asyncio.run(play())


@pytest.mark.usefixtures("hundredfold")
def test_however_often_somebody_probes_there_is_one_look_at_a_process_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = list[int]()

    def status(process: ActorProcess) -> str:
        looks.append(process.pid)
        return "sleeping"

    async def play() -> None:
        async with watched() as (_, watch):
            await until(lambda: watch.states() == {"sleeper": "up"})
            monkeypatch.setattr(ActorProcess, "_status", status)
            await asyncio.sleep(2 * watchdog.TOLD_AGAIN_S)
            looks.clear()
            assert [watch.states() for _ in range(100)] == [{"sleeper": "up"}] * 100
            assert len(looks) == 1
            await asyncio.sleep(2 * watchdog.TOLD_AGAIN_S)
            looks.clear()
            assert watch.states() == {"sleeper": "up"} and len(looks) == 1

    asyncio.run(play())


@pytest.mark.usefixtures("hundredfold")
def test_what_a_process_has_dropped_is_told_once() -> None:
    async def play() -> None:
        part, told = Sleeper(), list[int]()
        state = PartState(part, 0.0)
        for part.dropped in (0, 2, 2, 5):
            await state.ask(lambda _, dropped: told.append(dropped.count))
        part.child.kill()
        part.child.wait()
        # Another one counts anew.
        again = Sleeper()
        part.child, part.dropped = again.child, 4
        await state.ask(lambda _, dropped: told.append(dropped.count))
        again.child.kill()
        again.child.wait()
        assert told == [2, 3, 4]

    asyncio.run(play())


async def silence(part: Sleeper, watch: Watchdog) -> float:
    """Let a part that has answered be mute, and return the seconds until it is ended."""
    await until(lambda: watch.states() == {"sleeper": "up"})
    part.mute = True
    began_s = time.monotonic()
    await asyncio.wait_for(part.ended.wait(), PATIENCE_S)
    return time.monotonic() - began_s


@pytest.mark.slow
@pytest.mark.usefixtures("hundredfold")
def test_a_part_that_hangs_without_being_stopped_is_ended_sooner_if_it_does_not_compute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So far apart that a busy machine blurs neither: one that computes has a part of the processor within two seconds.
    monkeypatch.setattr(watchdog, "SILENT_S", 2.0)
    monkeypatch.setattr(watchdog, "BUSY_S", 8.0)

    async def play(*command: str) -> float:
        async with watched(*command) as (part, watch):
            took_s = await silence(part, watch)
            assert part.stops == 0
            return took_s

    asleep_s = asyncio.run(play())
    busy_s = asyncio.run(play("sh", "-c", "while :; do :; done"))
    assert 2.0 <= asleep_s + watchdog.ASK_S < 8.0 <= busy_s + watchdog.ASK_S


@pytest.mark.usefixtures("hundredfold")
def test_a_part_whose_loop_is_overdue_is_ended_though_it_answers() -> None:
    async def play() -> None:
        async with watched() as (part, _):
            part.patience_s = 3.0
            part.overdue_s = 2.9
            await until(lambda: part.asked >= 3)
            assert not part.ended.is_set()
            part.overdue_s = 3.1
            await until(part.ended.is_set)

    asyncio.run(play())

"""Wedged is not dead: asks each part for its pulse, and ends the process of one that is silent for too long.

Whoever ends in this way is replaced as one that died by itself is (`recovery`, `sources`).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ray.exceptions import RayError

from serving.cluster.actor_process import ActorProcess, end_process, process_of
from serving.cluster.supervision.backoff import summary
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.process.logs import fields
from serving.types import Dropped

log = logging.getLogger("foreserve")

LOOK_S = 2.0
# Whoever does not answer for so long and is stopped (SIGSTOP, a debugger) is not waited for.
# Two looks without an answer, and not three.
STOPPED_S = 3.0
# Whoever does not answer for so long, and has not had the processor meanwhile, never will.
SILENT_S = 8.0
# The same of one that computes, or whose process can't be looked at; and of one that has never answered yet.
BUSY_S = 45.0
STARTING_S = 300.0


class WatchedPart(NamedTuple):
    """An actor that must not be silent. `patience_s` is for how long its loop may be overdue, in real seconds: longer
    than the longest wait that is no fault of its own. `excuse` is called if somebody has stopped its process: then no
    request is the cause of its end."""

    name: str
    actor: Any
    patience_s: float
    excuse: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Watched:
    """What is known of a part: when it answered last (None: never), by how much its loop was overdue then, in which
    process it is, and why it is down if it is."""

    part: WatchedPart
    since_s: float
    heard_s: float | None = None
    overdue_s: float = 0.0
    down: str = ""
    asked: "asyncio.Task[None] | None" = None
    process: ActorProcess | None = None
    busy_s: float | None = None
    busy_since_s: float = 0.0

    async def ask(self, on_dropped: Callable[[str, Dropped], None]) -> None:
        """Ask for the pulse once; an actor that is dead has answered as well."""
        try:
            heartbeat: Heartbeat = await self.part.actor.pulse.remote()
            self.overdue_s, self.down, self.process = heartbeat.overdue_s, "", heartbeat.process
            if heartbeat.dropped is not None:
                on_dropped(self.part.name, heartbeat.dropped)
        except RayError as error:
            self.overdue_s, self.down, self.process = 0.0, summary(error), None
        self.heard_s = time.monotonic()

    async def found(self) -> ActorProcess | None:
        """Its process, as it said itself, or (it may have another by now) as Ray's books have it; None if neither
        does."""
        if self.process is not None and self.process.may_be_there():
            return self.process
        return await process_of(self.part.actor)

    def silent_s(self, now_s: float) -> float:
        """For how long it has not answered."""
        return now_s - (self.since_s if self.heard_s is None else self.heard_s)


@dataclass(slots=True)
class Watchdog:
    """Watches parts. `parts` tells which there are now; `on_dropped` hears of what one of them could not read, and
    `on_dead` of one that is dead."""

    parts: Callable[[], Iterable[WatchedPart]]
    on_dropped: Callable[[str, Dropped], None] = lambda name, dropped: None
    on_dead: Callable[[WatchedPart], None] = lambda part: None
    _watched: dict[Any, Watched] = field(default_factory=dict)
    _task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        """Watch from now on."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Watch no longer."""
        for task in (self._task, *(each.asked for each in self._watched.values())):
            if task is not None:
                task.cancel()

    def states(self) -> dict[str, str]:
        """How each part is, by name: `up`, `starting`, `silent`, or why it is `down`."""
        now_s = time.monotonic()
        return {each.part.name: self._state(each, now_s) for each in self._watched.values()}

    def _state(self, each: Watched, now_s: float) -> str:
        if each.heard_s is None:
            return "starting"
        if each.down:
            return "down"
        silent = each.silent_s(now_s) > SILENT_S or each.overdue_s > each.part.patience_s
        return "silent" if silent else "up"

    async def _run(self) -> None:
        while True:
            # Whatever happens to one look, there is a next one.
            try:
                await self._look()
            except Exception:
                log.exception("The watchdog could not look after the parts of the emulation.")
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        now_s, parts = time.monotonic(), {part.actor._actor_id: part for part in self.parts()}
        for gone in self._watched.keys() - parts.keys():
            if (asked := self._watched.pop(gone).asked) is not None:
                asked.cancel()
        for id, part in parts.items():
            each = self._watched.setdefault(id, Watched(part, now_s))
            if each.asked is None or each.asked.done():
                each.asked = asyncio.create_task(each.ask(self.on_dropped))
            if each.down:
                self.on_dead(part)
        for each in list(self._watched.values()):
            if await self._is_wedged(each, now_s):
                await self._end(each)

    async def _is_wedged(self, each: Watched, now_s: float) -> bool:
        if each.overdue_s > each.part.patience_s:
            return True
        silent_s = each.silent_s(now_s)
        if silent_s < STOPPED_S:
            each.busy_s = None
            return False
        process = await each.found()
        if process is None:
            return False
        return process.stopped() or silent_s > self._limit_s(each, process, now_s)

    def _limit_s(self, each: Watched, process: ActorProcess, now_s: float) -> float:
        """For how long it may be silent, by what its process does."""
        if each.heard_s is None:
            return STARTING_S
        busy_s = process.busy_s()
        if busy_s is None:
            return BUSY_S
        if each.busy_s is None or busy_s > each.busy_s:
            each.busy_s, each.busy_since_s = busy_s, now_s
            return BUSY_S
        return BUSY_S if now_s - each.busy_since_s < SILENT_S else SILENT_S

    async def _end(self, each: Watched) -> None:
        part, process = each.part, await each.found()
        if process is None:
            return
        sentence = "The %s is silent; its process %d is ended, so that another one takes its place."
        log.error(sentence, part.name, process.pid, extra=fields(actor=part.name))
        if process.stopped():
            part.excuse()
        with contextlib.suppress(RayError):
            await end_process(process)
        each.heard_s, each.overdue_s, each.process = time.monotonic(), 0.0, None

"""Watchdog: asks each part for its heartbeat, and kills the process of one that is silent for too long.

A question takes much more of this process, which streams tokens meanwhile, than a look at a process of this node. So
there are more looks than questions.

A part that is killed so is replaced as one that died by itself (`recovery`, `sources`, `kept_process`).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from ray.exceptions import RayError

from serving.cluster.actor_process import ActorProcess
from serving.cluster.pulse_line import PulseLine
from serving.cluster.supervision.deaths import summary
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.cluster.supervision.watched_part import WatchedPart
from serving.process.logs import fields
from serving.types import DroppedMessages

log = logging.getLogger("foreserve")

LOOK_S = 2.0
# Real seconds between two questions to a part whose process is seen to be well.
ASK_S = 4.0
# Silence is a question without an answer. Real seconds of it after which a stopped process (SIGSTOP, a debugger) is
# killed: two looks without an answer, and not three.
STOPPED_S = 3.0
# Real seconds of silence after which a process that has not even asked for a processor meanwhile will never answer.
SILENT_S = 8.0
# The same of a process that computes, or waits for a processor, or cannot be looked at.
BUSY_S = 45.0
# Both of a part that has never answered yet: a token source may load a large model from far away.
STARTING_S = 300.0
LOADING_S = 3600.0
# Real seconds for which the states of all parts are told again without a look: for each, the kernel is asked, and who
# probes us may do so as often as he likes.
TOLD_AGAIN_S = 0.25


@dataclass(slots=True)
class PartState:
    """A part's last known state: since when its answer has been waited for, on the monotonic clock, whether it has ever
    answered, by how many real seconds its loop was overdue then, its process, why it is down, if it is, and which
    process has told of how many `dropped` messages."""

    part: WatchedPart
    asked_s: float
    line: PulseLine = field(default_factory=PulseLine)
    heard: bool = False
    overdue_s: float = 0.0
    down: str = ""
    asked: "asyncio.Task[None] | None" = None
    process: ActorProcess | None = None
    runnable_s: float | None = None
    busy_since_s: float = 0.0
    dropped: tuple[ActorProcess, int] | None = None

    async def ask(self, on_dropped: Callable[[str, DroppedMessages], None]) -> None:
        """Ask for the heartbeat once; that an actor is dead is an answer as well."""
        try:
            heartbeat = await self.line.heartbeat(self.part)
            self.overdue_s, self.down, self.process = heartbeat.overdue_s, "", heartbeat.process
            if (dropped := self._new_drops(heartbeat)) is not None:
                on_dropped(self.part.name, dropped)
        except RayError as error:
            self.overdue_s, self.down, self.process = 0.0, summary(error), None
        self.heard = True

    def _new_drops(self, heartbeat: Heartbeat) -> DroppedMessages | None:
        """Return the messages dropped since the last heartbeat that has come; None if there are none."""
        process, dropped = heartbeat.process, heartbeat.dropped
        if dropped is None:
            return None
        told = self.dropped[1] if self.dropped and self.dropped[0] == process else 0
        self.dropped = process, dropped.count
        return DroppedMessages(dropped.count - told, dropped.why) if dropped.count > told else None

    def forget(self) -> None:
        """Ask no more."""
        if self.asked is not None:
            self.asked.cancel()
        self.line.hang_up()

    @property
    def waits(self) -> bool:
        """Tell whether a question has no answer yet."""
        return self.asked is not None and not self.asked.done()

    def is_due(self, now_s: float) -> bool:
        """Tell whether the part is to be asked again: now, if its process is not seen to be well."""
        return now_s - self.asked_s >= ASK_S or self.process is None or not self.process.is_well()

    async def found(self) -> ActorProcess | None:
        """Return the part's process: the one it named, unless that has ended, else the one that others know, if any."""
        if self.process is not None and self.process.may_be_there():
            return self.process
        return await self.part.process()

    def silent_s(self, now_s: float) -> float:
        """Return the real seconds for which the part has not answered, or has not begun to."""
        return now_s - self.asked_s if self.waits or not self.heard else 0.0


@dataclass(slots=True)
class Watchdog:
    """A watchdog of the parts that `parts` returns at each look.

    `on_dropped` hears of messages that a part could not read.
    """

    parts: Callable[[], Iterable[WatchedPart]]
    on_dropped: Callable[[str, DroppedMessages], None] = lambda name, dropped: None
    _watched: dict[Hashable, PartState] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)
    _told_s: float = -TOLD_AGAIN_S
    _task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        """Start watching."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
        for each in self._watched.values():
            each.forget()

    def states(self) -> dict[str, str]:
        """Return the state of each part by name, as of `TOLD_AGAIN_S` ago at most: `up`, `starting`, `silent` or
        `down`."""
        if (now_s := time.monotonic()) >= self._told_s + TOLD_AGAIN_S:
            self._told = {each.part.name: self._state(key, each, now_s) for key, each in self._watched.items()}
            self._told_s = now_s
        return self._told

    def _state(self, key: Hashable, each: PartState, now_s: float) -> str:
        # Since the last look another one may have taken its place.
        if not each.heard or key != each.part.key:
            return "starting"
        # Its death is seen before the next look finds it.
        if each.down or (each.process is not None and not each.process.may_be_there()):
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
        now_s, parts = time.monotonic(), {part.key: part for part in self.parts()}
        for gone in self._watched.keys() - parts.keys():
            self._watched.pop(gone).forget()
        for id, part in parts.items():
            each = self._watched.setdefault(id, PartState(part, now_s))
            each.part = part  # a standby that is promoted is the same actor, and another part
            if not each.waits and each.is_due(now_s):
                # Whoever has never answered is silent since it was first seen, however often it was asked.
                each.asked_s = now_s if each.heard else each.asked_s
                each.asked = asyncio.create_task(each.ask(self.on_dropped))
            if each.down:
                part.note_death()
        for each in list(self._watched.values()):
            if await self._is_wedged(each, now_s):
                await self._end(each)

    async def _is_wedged(self, each: PartState, now_s: float) -> bool:
        if each.overdue_s > each.part.patience_s:
            return True
        silent_s = each.silent_s(now_s)
        if silent_s < STOPPED_S:
            each.runnable_s = None
            return False
        process = await each.found()
        if process is None:
            return False
        return process.stopped() or silent_s > self._limit_s(each, process, now_s)

    def _limit_s(self, each: PartState, process: ActorProcess, now_s: float) -> float:
        """Return the real seconds for which a part may be silent, by the work of its process."""
        idle_limit_s, busy_limit_s = (STARTING_S, LOADING_S) if not each.heard else (SILENT_S, BUSY_S)
        runnable_s = process.runnable_s()
        if runnable_s is None:
            return busy_limit_s
        if each.runnable_s is None or runnable_s > each.runnable_s:
            each.runnable_s, each.busy_since_s = runnable_s, now_s
            return busy_limit_s
        return busy_limit_s if now_s - each.busy_since_s < idle_limit_s else idle_limit_s

    async def _end(self, each: PartState) -> None:
        part, process = each.part, await each.found()
        if process is None:
            return
        sentence = "The %s is silent; its process %d is ended, so that another one takes its place."
        log.error(sentence, part.name, process.pid, extra=fields(actor=part.name))
        if process.stopped():
            part.note_stopped()
        with contextlib.suppress(RayError):
            await part.end(process)
        each.heard, each.asked_s, each.overdue_s, each.process = True, time.monotonic(), 0.0, None

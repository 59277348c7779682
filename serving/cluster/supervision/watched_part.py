"""Watched part: a part of the emulation that has a process, and must not be silent to the watchdog."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

from serving.cluster.actor_process import ActorProcess, end_process, process_of
from serving.cluster.supervision.heartbeat import Heartbeat


class WatchedPart(Protocol):
    """A part with a process of its own, which another one replaces when it ends."""

    @property
    def name(self) -> str:
        """Its name, for logs and probes."""

    @property
    def patience_s(self) -> float:
        """Real seconds for which its loop may be overdue: more than the longest wait that is no fault of its own."""

    @property
    def key(self) -> Hashable:
        """The identity of the part: another one for the part that takes its place."""

    async def pulse(self) -> Heartbeat:
        """Ask for its heartbeat. Raise RayError if it is dead."""

    async def process(self) -> ActorProcess | None:
        """Return its process, ready or not; None if none is known."""

    async def end(self, process: ActorProcess) -> None:
        """Kill its process."""

    def note_stopped(self) -> None:
        """Hear that somebody has stopped its process: then no request is the cause of its end."""

    def note_death(self) -> None:
        """Hear that it is dead."""


class ActorPart(NamedTuple):
    """An actor of Ray's; `on_stopped` and `on_dead` are called if somebody has stopped its process, or it is dead."""

    name: str
    actor: Any
    patience_s: float
    on_stopped: Callable[[], None] = lambda: None
    on_dead: Callable[[], None] = lambda: None

    @property
    def key(self) -> Hashable:
        """Ray's id of it."""
        return str(self.actor._actor_id.hex())

    async def pulse(self) -> Heartbeat:
        """Ask for its heartbeat. Raise RayError if it is dead."""
        heartbeat: Heartbeat = await self.actor.pulse.remote()
        return heartbeat

    async def process(self) -> ActorProcess | None:
        """Return the process that Ray knows, if any."""
        return await process_of(self.actor)

    async def end(self, process: ActorProcess) -> None:
        """Kill its process, on whatever node it is."""
        await end_process(process)

    def note_stopped(self) -> None:
        """Call `on_stopped`."""
        self.on_stopped()

    def note_death(self) -> None:
        """Call `on_dead`."""
        self.on_dead()

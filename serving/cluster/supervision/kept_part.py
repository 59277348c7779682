"""A kept process that answers at a socket, as the watchdog sees it."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import NamedTuple

from serving.cluster.actor_process import ActorProcess, this_node
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.process.kept_process import KeptProcess

ASK_S = 0.5
REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ALIVE = b"HTTP/1."

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class KeptPart(NamedTuple):
    """The process that is `kept` under a `name`; `lives` returns when it has said, once more, that it lives."""

    name: str
    kept: KeptProcess
    lives: Callable[[], Awaitable[None]]
    patience_s: float = math.inf

    @property
    def key(self) -> Hashable:
        """Another one for each process."""
        starting = self.kept.pid is None
        return self.name, self.kept.starts + starting

    async def pulse(self) -> Heartbeat:
        """Wait until it says that it lives."""
        process = None
        while process is None:
            await self.lives()
            process = await self.process()
        return Heartbeat(process)

    async def process(self) -> ActorProcess | None:
        """Return its process, ready or not; None while there is none."""
        pid = self.kept.pid
        return None if pid is None else ActorProcess(this_node(), pid)

    async def end(self, process: ActorProcess) -> None:
        """Kill its process."""
        if process.pid == self.kept.pid:
            self.kept.kill()

    def note_stopped(self) -> None:
        """None of its requests is ever accused."""

    def note_death(self) -> None:
        """Do nothing: `kept` sees the end of its process."""


async def answers_http(host: str, port: int) -> None:
    """Return once a server answers a probe."""
    await answers(partial(asyncio.open_connection, host, port), REQUEST, ALIVE)


async def answers(connect: Callable[[], Awaitable[Streams]], request: bytes, answer: bytes) -> None:
    """Return once whoever is behind `connect` answers a request so, at first."""
    while True:
        try:
            if await _answered(connect, request, answer):
                return
        except OSError:
            # Nobody listens there yet, or no longer.
            pass
        await asyncio.sleep(ASK_S)


async def _answered(connect: Callable[[], Awaitable[Streams]], request: bytes, answer: bytes) -> bool:
    reader, writer = await connect()
    try:
        writer.write(request)
        return await reader.read(len(answer)) == answer
    finally:
        writer.close()

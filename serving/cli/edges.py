"""Edges in processes of their own: their start, how the engine core meets them, and their end."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from serving.call import TEXT_ROUTES
from serving.cli.edge_process import EdgeSettings
from serving.cli.server_start import EDGE, ServerStart
from serving.cli.supervision import StartError
from serving.clock import ClockOrigin
from serving.cluster.session.ray_settings import is_joined
from serving.cluster.streams.sockets import here
from serving.cluster.supervision.kept_part import KeptPart
from serving.edge.front_ends.own_edge import OwnEdge
from serving.edge.preflight import PreparedScenario
from serving.process.background import in_background
from serving.process.backoff import FREE_RESTARTS
from serving.process.kept_process import KeptProcess

if TYPE_CHECKING:
    from serving.edge.engine_core import EmulatedCore
    from serving.edge.front_ends.front_end import Ready

COMMAND = [sys.executable, "-m", EDGE]


class EdgeProcesses:
    """The edges of a server, whose sockets lie in the folder of its run; its clock began at `origin`."""

    def __init__(self, prepared: PreparedScenario, start: ServerStart, origin: ClockOrigin) -> None:
        self._prepared, self._folder, self._origin, self._host = prepared, start.folder, origin, here(is_joined())
        self._forked = start.edges
        self._stack = contextlib.AsyncExitStack()
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._killed = 0
        self._kept: list[KeptProcess] = []
        self._running: list[asyncio.Task[None]] = []
        self._joined: list[OwnEdge] = []
        self.http_core, self.grpc_core = str(start.folder / "core-http"), str(start.folder / "core-grpc")

    @property
    def grpc_port(self) -> int:
        """The port of gRPC."""
        assert self._prepared.grpc_sock is not None
        return int(self._prepared.grpc_sock.getsockname()[1])

    def in_flight(self) -> int:
        """Return the HTTP requests that make text, and are in flight at any of them."""
        return sum(route in TEXT_ROUTES for edge in self._joined for route in edge.routes)

    async def start(self) -> None:
        """Start them; they wait for the engine core."""
        for index, first in zip_longest(range(self._prepared.scenario.edges), self._forked):
            given = msgspec.msgpack.encode(self._settings(index))
            # Of the scenario nothing is left in the environment but what `prepare_environment` has set.
            kept = KeptProcess(f"Edge {index}", COMMAND, os.environ, given, self._fail, first)
            self._kept.append(kept)
            self._running.append(asyncio.create_task(kept.run()))

    async def join(self, core: "EmulatedCore", ready: "Ready", watch: Callable[[KeptPart], None]) -> None:
        """Meet them, and have them serve; then `core` is listened to. `watch` gets each, to be watched from now on.

        Raise StartError if one fails before it serves.
        """
        joining = self._joined
        joining += [OwnEdge(self._path(index), core, ready) for index in range(self._prepared.scenario.edges)]
        for edge in joining:
            edge.others = [other for other in joining if other is not edge]
            await self._stack.enter_async_context(in_background(edge.run()))
        for index, (kept, edge) in enumerate(zip(self._kept, joining, strict=True)):
            watch(KeptPart(f"edge {index}", kept, edge.lives))
        await self._all(edge.warm for edge in joining)
        core.listen()
        for edge in joining:
            edge.open()
        await self._all(edge.up for edge in joining)

    async def _all(self, events: Iterable[asyncio.Event]) -> None:
        """Wait for all events. Raise StartError if an edge fails before."""
        waiting = asyncio.gather(*(event.wait() for event in events))
        either: list[asyncio.Future[Any]] = [waiting, self._failed, *self._running]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            for running in self._running:
                if running.done():
                    running.result()
            raise StartError(self._failed.result())

    async def stop(self) -> None:
        """End them, all at once; until they have ended, the engine core answers what they still have."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._stack.aclose()

    def _fail(self, code: int) -> None:
        # One that a signal ended has another in its place, which comes up unless that happens again and again.
        self._killed += code < 0
        if not self._failed.done() and (code >= 0 or self._killed > FREE_RESTARTS):
            self._failed.set_result(f"An edge ended with exit code {code} before it served.")

    def _path(self, index: int) -> Path:
        """Return where an edge listens for the engine core."""
        return self._folder / f"edge-{index}"

    def _settings(self, index: int) -> EdgeSettings:
        prepared = self._prepared
        return EdgeSettings(
            prepared.scenario,
            prepared.access,
            prepared.max_model_len,
            self._origin,
            self._host,
            str(self._path(index)),
            1 + index,  # 0 is the engine core's
            self.http_core,
            self.grpc_core,
            prepared.sock.getsockname()[1],
            self.grpc_port,
            prepared.observing.log_format,
            prepared.observing.log_level,
            prepared.observing.traced,
        )

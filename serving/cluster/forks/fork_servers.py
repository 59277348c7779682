"""Fork servers: processes that have imported what actors need, whose forks become actors in a fraction of the time."""

import asyncio
import contextlib
import os
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from serving.cluster.forks.preloading import MODULE, SOCKET
from serving.cluster.supervision.kept_part import KeptPart, answers
from serving.process.background import in_background
from serving.process.forks import forked_python
from serving.process.forks.fork_off import ACTOR_FORKS, FORK_SERVER
from serving.process.forks.forked_child import ForkedChild
from serving.process.forks.forker import ALIVE, PROBE
from serving.process.kept_process import KeptProcess

LOOK_S = 0.01


class Preload(NamedTuple):
    """What a fork server has imported, and what it is called: `part`, where the state of all parts is told; `process`,
    where the system's processes are listed; its `socket` in the run's folder."""

    part: str
    process: str
    socket: str
    module: str


SOURCES = Preload("fork server", FORK_SERVER, SOCKET, MODULE)
"""vLLM, for token sources."""
ACTORS = Preload("actor fork server", ACTOR_FORKS, "actor-forks", "serving.cluster.forks.actor_imports")
"""Ray and the device models, for all other actors; it needs the environment of Ray's workers."""


class Forks(NamedTuple):
    """Ray's `options` for an actor that is to be a fork, if any is, and the fork server as the watchdog sees it."""

    options: dict[str, Any]
    servers: tuple[KeptPart, ...]


NO_FORKS = Forks({}, ())


@contextlib.asynccontextmanager
async def forking(
    folder: Path, preload: Preload, first: ForkedChild | None = None, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Forks]:
    """Keep a fork server while the context lasts, for this host and the run of a `folder`, at first the one that is
    there already. `environment`: its own, if it is not this process's."""
    address = str(folder / preload.socket)
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    server = [sys.executable, "-m", "serving.process.forks.fork_server"]
    command = [*server, address, preload.module, str(niceness), preload.process]
    kept = KeptProcess(f"The {preload.part}", command, environment or os.environ, first=first)
    async with in_background(kept.run()) as running:
        # What follows may keep everything else here from going on for a while.
        while not kept.starts:
            await asyncio.wait({running}, timeout=LOOK_S)
            if running.done():
                running.result()
        python = shlex.join([sys.executable, "-I", "-S", forked_python.__file__, address])
        lives = partial(answers, partial(asyncio.open_unix_connection, address), PROBE, ALIVE)
        yield Forks({"runtime_env": {"py_executable": python}}, (KeptPart(preload.part, kept, lives),))

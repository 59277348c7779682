"""The fork server: a process with vLLM imported, whose forks become token sources in a fraction of the time."""

import asyncio
import contextlib
import os
import shlex
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from serving.cluster.sources.preloading import MODULE, SOCKET
from serving.cluster.supervision.kept_part import KeptPart, answers
from serving.process.background import in_background
from serving.process.forks import forked_python
from serving.process.forks.forked_child import ForkedChild
from serving.process.forks.forker import ALIVE, PROBE
from serving.process.kept_process import KeptProcess

NAME = "fork server"
LOOK_S = 0.01


class Forks(NamedTuple):
    """Ray's `options` for an actor that is to be a fork, and the fork server as the watchdog sees it."""

    options: dict[str, Any]
    server: KeptPart


@contextlib.asynccontextmanager
async def forking(folder: Path, first: ForkedChild | None) -> AsyncIterator[Forks]:
    """Keep a fork server while the context lasts, for this host, at first the one that is there already; its socket is
    in the run's `folder`."""
    address = str(folder / SOCKET)
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    command = [sys.executable, "-m", "serving.process.forks.fork_server", address, MODULE, str(niceness)]
    kept = KeptProcess(f"The {NAME}", command, first=first)
    async with in_background(kept.run()) as running:
        # What follows may keep everything else here from going on for a while.
        while not kept.starts:
            await asyncio.wait({running}, timeout=LOOK_S)
            if running.done():
                running.result()
        python = shlex.join([sys.executable, "-I", "-S", forked_python.__file__, address])
        lives = partial(answers, partial(asyncio.open_unix_connection, address), PROBE, ALIVE)
        yield Forks({"runtime_env": {"py_executable": python}}, KeptPart(NAME, kept, lives))

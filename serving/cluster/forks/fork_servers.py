"""Fork servers: processes that have imported what actors need, whose forks become actors in a fraction of the time."""

import asyncio
import contextlib
import shlex
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from serving.cluster.forks.preloading import Preload
from serving.cluster.supervision.kept_part import KeptPart, answers
from serving.process.background import in_background
from serving.process.forks import forked_python
from serving.process.forks.forked_child import ForkedChild
from serving.process.forks.forker import ALIVE, PROBE
from serving.process.kept_process import KeptProcess

LOOK_S = 0.01


class Forks(NamedTuple):
    """Ray's `options` for an actor that is to be a fork, if any is, and the fork server as the watchdog sees it."""

    options: dict[str, Any]
    servers: tuple[KeptPart, ...]


NO_FORKS = Forks({}, ())


@contextlib.asynccontextmanager
async def forking(folder: Path, preload: Preload, first: ForkedChild | None = None) -> AsyncIterator[Forks]:
    """Keep a fork server while the context lasts, for this host and the run of a `folder`, at first the one that is
    there already."""
    address = str(folder / preload.socket)
    kept = KeptProcess(f"The {preload.part}", preload.command(folder), first=first)
    async with in_background(kept.run()) as running:
        # What follows may keep everything else here from going on for a while.
        while not kept.starts:
            await asyncio.wait({running}, timeout=LOOK_S)
            if running.done():
                running.result()
        python = shlex.join([sys.executable, "-I", "-S", forked_python.__file__, address])
        lives = partial(answers, partial(asyncio.open_unix_connection, address), PROBE, ALIVE)
        yield Forks({"runtime_env": {"py_executable": python}}, (KeptPart(preload.part, kept, lives),))

"""A child process that is kept: started again when it ends by itself, and ended with who keeps it."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence

from serving.process.logs import fields

# One that ends by itself is started again after so many real seconds, and has so many to end when it is told to.
AGAIN_S, END_S = 1.0, 5.0

log = logging.getLogger("foreserve")


async def keep(
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str] = os.environ,
    given: bytes | None = None,
    tell_end: Callable[[int], None] = lambda code: None,
) -> None:
    """Run a command until cancelled, then end it; if it ends by itself, call `tell_end` with its exit code, and start
    it again.

    `given` is written to its standard input, which stays open for as long as this process lives.
    """
    while True:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(environment),
            stdin=None if given is None else asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            if process.stdin is not None and given is not None:
                process.stdin.write(len(given).to_bytes(8, "big") + given)
            code = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        log.error("%s ended with exit code %d; it starts again.", name, code, extra=fields(process=name))
        tell_end(code)
        await asyncio.sleep(AGAIN_S)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            process.kill()
            await process.wait()

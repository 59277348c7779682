"""A child process that is kept: started again when it ends by itself, and ended with who keeps it."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from serving.process.logs import fields

# One that ends by itself is started again after so many real seconds, and has so many to end when it is told to.
AGAIN_S, END_S = 1.0, 5.0

log = logging.getLogger("foreserve")


@dataclass(slots=True)
class KeptProcess:
    """A command that runs for as long as `run` does; if it ends by itself, `tell_end` gets its exit code, and it starts
    again.

    `given` is written to its standard input, which stays open for as long as this process lives.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    given: bytes | None = None
    tell_end: Callable[[int], None] = lambda code: None
    starts: int = 0
    _process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def run(self) -> None:
        """Keep the process until cancelled, then end it."""
        while True:
            self._process = process = await self._start()
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                await _end(process)
                raise
            log.error("%s ended with exit code %d; it starts again.", self.name, code, extra=fields(process=self.name))
            self.tell_end(code)
            await asyncio.sleep(AGAIN_S)

    def kill(self) -> None:
        """Kill the process that runs now: another one takes its place."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _start(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *self.command,
            env=dict(self.environment),
            stdin=None if self.given is None else asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self.starts += 1
        if process.stdin is not None and self.given is not None:
            process.stdin.write(len(self.given).to_bytes(8, "big") + self.given)
        return process


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            process.kill()
            await process.wait()

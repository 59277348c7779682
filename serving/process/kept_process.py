"""A child process that is kept: started again when it ends by itself, and ended with who keeps it."""

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from serving.process.backoff import Backoff
from serving.process.forks.forked_child import ForkedChild
from serving.process.logs import fields

LENGTH_BYTES = 8
"""What says how long the rest is, of what a kept process is given."""
# Real seconds to end when it is told to.
END_S = 5.0
# Real seconds after which a process that ends has worked before: it may need some to come up, or to fail to.
STEADY_S = 20.0
# Real seconds at least until the next try after a start that failed.
RETRY_S = 1.0

log = logging.getLogger("foreserve")

Child = asyncio.subprocess.Process | ForkedChild


@dataclass(slots=True)
class KeptProcess:
    """A command that runs for as long as `run` does; if it ends by itself, `tell_end` gets its exit code, and it starts
    again, later each time that it ends soon.

    `given` is written to its standard input, which stays open for as long as this process lives. `first` is a child
    that does already what the command does, in the place of its first start.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    given: bytes | None = None
    tell_end: Callable[[int], None] = lambda code: None
    first: ForkedChild | None = None
    starts: int = 0
    _backoff: Backoff = field(default_factory=partial(Backoff, STEADY_S))
    _process: Child | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def run(self) -> None:
        """Keep the process until cancelled, then end it."""
        while True:
            try:
                self._process = process = await self._start()
            except OSError as error:
                # The first start shows whether there is such a command; later ones may lack memory, or files.
                if not self.starts:
                    raise
                log.error("%s could not be started again (%s).", self.name, error, extra=fields(process=self.name))
                await asyncio.sleep(max(RETRY_S, self._backoff.failed(time.monotonic())))
                continue
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                await _end(process)
                raise
            wait_s = self._backoff.failed(time.monotonic())
            when = f"in {wait_s:g} s" if wait_s else "at once"
            log.error(
                "%s ended with exit code %d; it starts again %s.",
                self.name,
                code,
                when,
                extra=fields(process=self.name),
            )
            self.tell_end(code)
            await asyncio.sleep(wait_s)

    def kill(self) -> None:
        """Kill the process that runs now: another one takes its place."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _start(self) -> Child:
        process = self.first if self.first and not self.starts else await self._run()
        self.starts += 1
        self._backoff.came_up(time.monotonic())
        # It may have ended since, and uvloop refuses to write to it then.
        if process.stdin is not None and self.given is not None and not process.stdin.is_closing():
            process.stdin.write(len(self.given).to_bytes(LENGTH_BYTES) + self.given)
        return process

    async def _run(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self.command,
            env=dict(self.environment),
            stdin=None if self.given is None else asyncio.subprocess.PIPE,
            # Out of the reach of Ctrl-C. No session of its own: Linux shares processors out among sessions first, and
            # niceness counts only within one (sched(7), autogroup).
            preexec_fn=os.setpgrp,
        )


def read_given() -> bytes:
    """Return what this process, which is kept, is given."""
    return sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(LENGTH_BYTES)))


async def _end(process: Child) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            process.kill()
            await process.wait()

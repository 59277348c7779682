"""A child process that is a fork of this one, as asyncio sees a command that it has started."""

import asyncio
import os
import signal

from serving.process.peer import Peer


class ForkedChild:
    """The child with a process ID, whose end nobody else waits for; it has no `stdin` of this process's."""

    stdin = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._peer = Peer(pid)

    async def wait(self) -> int:
        """Return its exit code, once it has ended."""
        if self.returncode is None:
            await self._end()
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def terminate(self) -> None:
        """Send it SIGTERM. Raise ProcessLookupError if it has ended."""
        self._peer.send(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL. Raise ProcessLookupError if it has ended."""
        self._peer.send(signal.SIGKILL)

    async def _end(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._peer.fileno(), ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._peer.fileno())

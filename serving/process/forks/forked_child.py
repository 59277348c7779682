"""A child process that is a fork of this one, as asyncio sees a command that it has started."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from serving.process.forks.fork_off import fork_off
from serving.process.peer import Peer


class ForkedChild:
    """The child with a process ID, whose end nobody else waits for; `stdin`: what it reads, if that is this
    process's."""

    def __init__(self, pid: int, stdin: "Pipe | None" = None) -> None:
        self.pid, self.stdin = pid, stdin
        self.returncode: int | None = None
        self._peer = Peer(pid)

    @classmethod
    def reading(cls, folder: Path, run: Callable[[], None]) -> "ForkedChild":
        """Fork a child off this process, which runs `run` and reads what is written to its `stdin`."""
        reader, writer = os.pipe()
        pid = fork_off(folder, run, stdin=reader)
        os.close(reader)
        return cls(pid, Pipe(writer))

    def has_ended(self) -> bool:
        """Tell whether it has ended."""
        return self.returncode is not None or self._peer.ended()

    async def wait(self) -> int:
        """Return its exit code, once it has ended."""
        if self.returncode is None:
            await self._end()
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
            self._peer.close()
            if self.stdin is not None:
                self.stdin.close()
        return self.returncode

    def terminate(self) -> None:
        """Send it SIGTERM. Raise ProcessLookupError if it has ended."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL. Raise ProcessLookupError if it has ended."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        self._peer.send(number)

    async def _end(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._peer.fileno(), ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._peer.fileno())


class Pipe:
    """The end of a pipe for what is so little that it never has to wait."""

    def __init__(self, writer: int) -> None:
        self._file = open(writer, "wb", buffering=0)  # noqa: SIM115

    def is_closing(self) -> bool:
        """Tell whether nothing can be written any more."""
        return self._file.closed

    def write(self, data: bytes) -> None:
        """Write it all, unless nobody is there to read it."""
        with contextlib.suppress(BrokenPipeError):
            self._file.write(data)

    def close(self) -> None:
        """End what is read at the other end."""
        self._file.close()

"""A server that is a fork of a Python with vLLM imported, in the place of one that is started by its command."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import IO, Any

MODULE = "serving.cli"
BEGIN = [sys.executable, "-m", MODULE]


class ForkedServer:
    """A server that was forked off, as `subprocess.Popen` shows one that was started."""

    def __init__(self, args: Sequence[str], connection: socket.socket) -> None:
        self.args = args
        self.returncode: int | None = None
        self._connection = connection
        self.pid = int(json.loads(connection.recv(64)))

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, once it has ended. Raise subprocess.TimeoutExpired after so many seconds."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = int(json.loads(self._connection.recv(64)))
            self._connection.close()
        return self.returncode


def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    stdout: int | None = None,
    stderr: IO[bytes] | None = None,
    pass_fds: Sequence[int] = (),
    **others: Any,
) -> ForkedServer:
    """Fork a server off, in a session of its own, which runs `command` with these files and this environment."""
    assert others == {"text": True, "start_new_session": True}
    assert list(command[: len(BEGIN)]) == BEGIN
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    wanted = {
        "module": MODULE,
        "arguments": command[len(BEGIN) :],
        "folder": os.getcwd(),
        "environment": dict(env),
        "numbers": [0, 1, 2, *pass_fds],
    }
    with its, open(os.memfd_create("server"), "wb") as file, open(os.devnull, "r+b") as nothing:
        file.write(json.dumps(wanted).encode())
        file.flush()
        out = nothing.fileno() if stdout == subprocess.DEVNULL else 1
        err = 2 if stderr is None else stderr.fileno()
        socket.send_fds(warm_python(), [b"+"], [file.fileno(), its.fileno(), 0, out, err, *pass_fds])
    return ForkedServer(command, ours)


@cache
def warm_python() -> socket.socket:
    """Return where to ask for forks; whoever forks ends with this process."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", "tests.warm.python", str(its.fileno())]
        subprocess.Popen(command, pass_fds=[its.fileno()], start_new_session=True)
    return ours

"""A server in a process of its own, for commands that measure one: the client must not share its interpreter."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from serving.process.shutdown import LIFELINE
from serving.usage_error import CommandFailed

START_S = 300.0
STOP_S = 30.0

start_process: Callable[..., "subprocess.Popen[str]"] = subprocess.Popen
"""What starts a server. Tests fork theirs off a process that has imported vLLM already, in the place of this."""


class ServerFailed(CommandFailed):
    """The server ended before it was ready, or never was, and has no `exit_code` then; it has said why itself."""

    def __init__(self, sentence: str, exit_code: int | None = None) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that is ready: where it is, how long it took, and its process."""

    http_url: str
    grpc_url: str
    ready_s: float
    realtime: bool
    process: subprocess.Popen[str]


def _is_given(name: str, options: Sequence[str]) -> bool:
    return any(each == name or each.startswith(f"{name}=") for each in options)


@contextlib.contextmanager
def server(
    *options: str, quiet: bool = False, log: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """`foreserve serve` with these options, on free ports; stopped, as with Ctrl-C, when the context ends. What it logs
    goes to a file, if one is named; `environment` is what it has beside our own."""
    began_s = time.monotonic()
    # It ends with us, as nobody else has the other end.
    reader, writer = os.pipe()
    # No file, as nobody would remove that if this process is killed.
    ready, told = os.pipe()
    command = [sys.executable, "-m", "serving.cli", "serve", *options, "--ready-file", f"/dev/fd/{told}"]
    ports = [f"{name}=0" for name in ("--http-port", "--grpc-port") if not _is_given(name, options)]
    with log.open("wb") if log else contextlib.nullcontext() as stderr:
        process = start_process(
            command + ports,
            text=True,
            stdout=subprocess.DEVNULL if quiet else None,
            stderr=stderr,
            env=os.environ | dict(environment or {}) | {LIFELINE: str(reader)},
            pass_fds=[reader, told],
            # Ctrl-C is for us; we then stop the server, once.
            start_new_session=True,
        )
    os.close(reader)
    os.close(told)
    try:
        yield _when_ready(process, ready, began_s)
    finally:
        stop(process)
        os.close(writer)
        os.close(ready)


def stop(process: subprocess.Popen[str]) -> None:
    """End a server as Ctrl-C does; by force only if that takes too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _when_ready(process: subprocess.Popen[str], told: int, began_s: float) -> ServerProcess:
    said, left_s = b"", START_S
    while not said.endswith(b"}"):
        if not select.select([told], [], [], max(0.0, left_s))[0]:
            raise ServerFailed(f"the server was not ready after {START_S:.0f} s.")
        if not (part := os.read(told, 4096)):
            raise ServerFailed(f"the server ended with exit code {process.wait()}.", process.returncode)
        said += part
        left_s = START_S - (time.monotonic() - began_s)
    ready = json.loads(said)
    s = "s" if ready["encrypted"] else ""
    return ServerProcess(
        http_url=f"http{s}://127.0.0.1:{ready['http_port']}",
        grpc_url=f"grpc{s}://127.0.0.1:{ready['grpc_port']}",
        ready_s=time.monotonic() - began_s,
        realtime=ready["realtime"],
        process=process,
    )

"""A process that has imported what takes long, and whose forks run programs that need it at once.

    python -m serving.process.fork_server SOCKET MODULE NICENESS < nothing (`KeptProcess`), by a pipe

It ends with whoever keeps it, and the pipe. `forked_python` asks it for forks, at its Unix socket, even before the
module is imported.
"""

import contextlib
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from serving.process.forked_python import ASK
from serving.process.kept_process import read_given

# Real seconds for whoever asks to say what; all who may are this user's.
HEARD_S = 2.0
# The same to confirm, for who may have waited for it, and be slow to go on.
CONFIRMED_S = 30.0
LONGEST_BYTES = 2**22
PROBE, ALIVE = b"?", b"!"
STREAMS = 3
"""Standard input, output and error, which a fork takes over from whoever asks for it; a program's file follows."""


class Program(msgspec.Struct, frozen=True):
    """A program in a file, the first of its `arguments`; the `folder` and the `environment` to run it in."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]


def main() -> None:
    """Fork on request until standard input ends."""
    address, module, niceness = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    # Whoever keeps it may have become more urgent than its forks should be.
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    # Its keeper ends it; Ctrl-C is for that one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    read_given()
    # Of a server that was killed.
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(64)
        preload(module)
        # Nobody waits for forks that have ended.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while listener in select.select([listener, sys.stdin.buffer], [], [])[0]:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError, ValueError):
                answer(connection, listener)


def preload(module: str) -> None:
    """Import a module, and keep what is there from then on out of the garbage collector's way: else it would be copied
    to each fork."""
    gc.disable()
    importlib.import_module(module)
    gc.collect()
    gc.freeze()
    gc.enable()


def answer(connection: socket.socket, listener: socket.socket) -> None:
    """Answer a probe, or fork for who has connected. Raise OSError or ValueError if they ask for neither."""
    connection.settimeout(HEARD_S)
    said, files, _, _ = socket.recv_fds(connection, 1, STREAMS + 1)
    try:
        if said == PROBE:
            connection.sendall(ALIVE)
        elif said == ASK and len(files) == STREAMS + 1:
            *streams, file = files
            program = msgspec.json.decode(os.pread(file, LONGEST_BYTES, 0), type=Program)
            if os.fork() == 0:
                listener.close()
                os.close(file)
                run(program, connection, streams)
    finally:
        for each in files:
            os.close(each)


def run(program: Program, connection: socket.socket, streams: list[int]) -> NoReturn:
    """Run a program in this fork, unless whoever asked for it has gone to another by now; end with its exit code."""
    code = 1
    try:
        # Whoever ends the group of one must not end the others. No session of its own (`KeptProcess`).
        os.setpgrp()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not is_confirmed(connection):
            sys.exit(code)
        for number, each in enumerate(streams):
            os.dup2(each, number)
            os.close(each)
        os.chdir(program.folder)
        os.environ.clear()
        os.environ.update(program.environment)
        path = program.arguments[0]
        sys.argv, sys.path[0] = program.arguments, str(Path(path).parent)
        runpy.run_path(path, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def is_confirmed(connection: socket.socket) -> bool:
    """Tell whether whoever asked for a fork still wants it."""
    connection.settimeout(CONFIRMED_S)
    try:
        connection.sendall(ALIVE)
        return bool(connection.recv(1))
    except OSError:
        return False


if __name__ == "__main__":
    main()

"""The forker: a process that forks itself for who asks at a socket; each fork runs a program.

It is a fork of the fork server, which keeps it.
"""

import contextlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import msgspec

from serving.process.forks.forked_python import ASK
from serving.process.peer import Peer

BACKLOG = 64
LOOK_S = 0.5
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


def forking(listener: socket.socket, server: Peer, keeper: Peer) -> NoReturn:
    """Be the forker in this process, a fork, until the keeper of its server ends."""
    with exiting():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        # Nobody waits for forks that have ended.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        # Whoever connects learns by whom this was called.
        listener.listen(BACKLOG)
        while not keeper.ended():
            # Another server takes its place then, and its forker this one's.
            if server.is_stopped_for_long():
                server.kill()
            if listener.fileno() in select.select([listener.fileno(), keeper.fileno()], [], [], LOOK_S)[0]:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError, ValueError):
                    answer(connection, (listener, server, keeper))
    raise AssertionError("A forker ends with its process.")


def answer(connection: socket.socket, own: tuple[socket.socket, Peer, Peer]) -> None:
    """Answer a probe, or fork for who has connected, without the forker's `own` files. Raise OSError or ValueError if
    they ask for neither."""
    connection.settimeout(HEARD_S)
    said, files, _, _ = socket.recv_fds(connection, 1, STREAMS + 1)
    try:
        if said == PROBE:
            connection.sendall(ALIVE)
        elif said == ASK and len(files) == STREAMS + 1:
            *streams, file = files
            # msgspec alone refuses the halves of surrogate pairs that stand for bytes which are no UTF-8.
            program = msgspec.convert(json.loads(os.pread(file, LONGEST_BYTES, 0)), Program)
            if os.fork() == 0:
                for mine in own:
                    mine.close()
                os.close(file)
                run(program, connection, streams)
    finally:
        for each in files:
            os.close(each)


def run(program: Program, connection: socket.socket, streams: list[int]) -> NoReturn:
    """Run a program in this fork, unless whoever asked for it has gone to another by now; end with its exit code."""
    with exiting():
        # Whoever ends the group of one must not end the others. No session of its own (`KeptProcess`).
        os.setpgrp()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with connection:
            if not is_confirmed(connection):
                sys.exit(1)
        for number, each in enumerate(streams):
            os.dup2(each, number)
            os.close(each)
        os.chdir(program.folder)
        os.environ.clear()
        os.environ.update(program.environment)
        path = program.arguments[0]
        sys.argv, sys.path[0] = program.arguments, str(Path(path).parent)
        runpy.run_path(path, run_name="__main__")
    raise AssertionError("A fork ends with its program.")


@contextlib.contextmanager
def exiting() -> Iterator[None]:
    """End this process, a fork, with the context, as a Python that runs nothing else would."""
    code = 1
    try:
        yield
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            # Nobody may read it any more; what stands above this context is for another process all the same.
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def is_confirmed(connection: socket.socket) -> bool:
    """Tell whether whoever asked for a fork still wants it."""
    connection.settimeout(CONFIRMED_S)
    try:
        connection.sendall(ALIVE)
        return bool(connection.recv(1))
    except OSError:
        return False

"""Forks of this process that go on as processes of their own, with what it has imported."""

import contextlib
import ctypes
import gc
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from serving.process.forks.forker import STREAMS, exiting
from serving.process.run_folder import be_a_fork

EDGE, FORK_SERVER, ACTOR_FORKS = "foreserve-edge", "foreserve-forks", "foreserve-actor"
"""The names of processes that may be forks, and have no command of their own to be known by then."""
LONGEST_NAME = 15
"""Characters that the kernel keeps of a process's name."""
PR_SET_NAME = 15  # linux/prctl.h


class File(Protocol):
    """What has a file descriptor."""

    def fileno(self) -> int:
        """Return it."""


def fork_off(folder: Path, run: Callable[[], None], kept: Sequence[File] = (), stdin: int | None = None) -> int:
    """Fork a process off this one, which runs `run` and ends, for the run of a `folder`; return its process ID.

    `kept`: the files that it needs of this process's; `stdin`: what is to be its standard input. Nothing of Ray may
    have been imported, which reads its settings then, and no thread may hold what the fork needs.
    """
    polite = [signal.SIGTERM, signal.SIGINT]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, polite)
    pid = os.fork()
    if pid == 0:
        with exiting():
            # Out of the reach of Ctrl-C.
            os.setpgrp()
            if stdin is not None:
                os.dup2(stdin, 0)
            close_all_but(kept)
            be_a_fork(folder)
            for number in polite:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            # What is there would be copied by a collection, and is garbage in none of the two.
            gc.freeze()
            gc.enable()
            run()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def close_all_but(kept: Sequence[File]) -> None:
    """Close the files of the process that this one is a fork of, but for its standard streams: its ports are to be
    free, and its pipes to end, when it ends. Their numbers stay taken, as objects of Python's will close them again."""
    nothing = os.open(os.devnull, os.O_RDWR)
    spared = {nothing, *range(STREAMS), *(each.fileno() for each in kept)}
    for number in {int(name) for name in os.listdir("/proc/self/fd")} - spared:
        # The one of the list itself is closed by now.
        with contextlib.suppress(OSError):
            os.fstat(number)
            os.dup2(nothing, number, inheritable=False)


def name_process(name: str) -> None:
    """Give this process a name of at most `LONGEST_NAME` characters, as `top` shows it."""
    assert len(name) <= LONGEST_NAME
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())

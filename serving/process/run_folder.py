"""The folder of a run: what its processes keep for each other, for this user alone, and gone with it.

A guard, a process of its own, sees to that when the run ends, in whatever way; and each new run removes what is left of
those that nobody has seen to.
"""

import contextlib
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from serving.process import guard

PREFIX = "foreserve-run-"
# The address of a Unix socket has 107 bytes, of which Ray takes 75 for its own below ours.
LONGEST = 32
# A guard that ends before its run does is replaced, but not more often than this.
AGAIN_S = 0.5
TIDY_S = 12.0


class FolderGuard:
    """The process that tidies up after this one. One that is killed is replaced."""

    def __init__(self, folder: Path, shared: bool = False) -> None:
        """Leave a `shared` folder to the last process that holds it."""
        self._folder, self._shared = folder, shared
        # No event: it is set in handlers of signals too, which may come while an event is being set.
        self._over = False
        # Nobody writes to it: it ends with this process, as nobody else has it.
        self._reader, self._writer = os.pipe()
        self._process = self._start()
        threading.Thread(target=self._watch, daemon=True).start()

    def finish(self) -> None:
        """Have it tidy up now, as this process needs nothing of its run any more; returns when it has."""
        if not self._over:
            self._over = True
            os.close(self._writer)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(TIDY_S)
            # If it was killed, or is stuck, that is for us.
            guard.clean(self._folder, os.getpid())
            os.close(self._reader)

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-I", "-S", guard.__file__, str(self._folder), str(os.getpid())]
        command += ["shared"] if self._shared else []
        # Out of the reach of Ctrl-C, and no part of the run itself.
        environment = {name: value for name, value in os.environ.items() if name != guard.MARK}
        return subprocess.Popen(command, stdin=self._reader, start_new_session=True, env=environment)

    def _watch(self) -> None:
        while True:
            self._process.wait()
            time.sleep(AGAIN_S)
            if self._over:
                return
            self._process = self._start()


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Provide a run's folder while the context lasts; end the processes started meanwhile after it."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place()))
    hold(folder)
    before = os.environ.get(guard.MARK)
    os.environ[guard.MARK] = str(folder)
    _guards[folder] = FolderGuard(folder)
    try:
        yield folder
    finally:
        os.environ.pop(guard.MARK)
        if before is not None:
            os.environ[guard.MARK] = before
        _guards.pop(folder).finish()
        os.close(_locks.pop(folder))


# Of the runs of this process, of which there is one at a time but in tests.
_guards: dict[Path, FolderGuard] = {}
_locks: dict[Path, int] = {}


# For one thread after the other; for a handler of signals too, amid what it interrupts.
_ending = threading.RLock()


def abandon(code: int) -> NoReturn:
    """End this process where it stands, and all that it has started."""
    with _ending:
        for each in list(_guards.values()):
            each.finish()
        os._exit(code)


def be_a_fork(folder: Path) -> None:
    """Leave the runs of the process that this one is a fork of to that one; belong to the run of a folder, and end with
    it. Files of that process must have been closed here."""
    _guards.clear()
    _locks.clear()
    os.open(folder / guard.MEMBERS, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)


def gone_with_run(path: Path) -> None:
    """Have a file elsewhere removed with the run, unless another one stands there by then."""
    for folder in _guards:
        with (folder / guard.FILES).open("a", encoding="utf-8") as files:
            files.write(f"{guard.identity(str(path))} {path.absolute()}\n")


def share(folder: Path) -> None:
    """Hold the folder of a run that another host has started, as far as it is on this one."""
    hold(folder)
    if folder not in _guards:
        _guards[folder] = FolderGuard(folder, shared=True)


def hold(folder: Path) -> Path:
    """Hold a folder that only this user can enter, made if it is not there, and not taken for stale while this process
    is. Raise PermissionError if it is another's."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder of this user's alone")
    if folder not in _locks:
        _locks[folder] = _locked(folder)
    return folder


def _locked(folder: Path) -> int:
    """Return a folder's lock, held together with others; it is there only once it is held."""
    held, ours = tempfile.mkstemp(dir=folder, prefix=guard.LOCK)
    fcntl.flock(held, fcntl.LOCK_SH)
    try:
        os.link(ours, folder / guard.LOCK)
    except OSError:  # It is there already, or this file system has no links.
        os.close(held)
        held = os.open(folder / guard.LOCK, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_SH)
    os.unlink(ours)
    return held


def sweep() -> None:
    """Remove what is left of runs that nobody has seen to."""
    for folder in place().glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and guard.is_stale(folder):
                guard.clean(folder, os.getpid())


def place() -> Path:
    """Return the parent of run folders: the one for temporary files, unless their names would be too long there."""
    usual = Path(tempfile.gettempdir())
    return usual if len(bytes(usual / PREFIX)) + 8 <= LONGEST else Path("/tmp")

"""Outlives the process that started a run, however that one ends, to end all else of the run and remove its files.

    python guard.py FOLDER PID [shared] < a pipe that ends when process PID does

A run is known by its folder (`run_folder`): its processes have it in their environment, or have its file for members
open, or are actors of Ray's with other files open in it. Nothing here but the standard library, so that it starts at
once.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "FORESERVE_RUN"
"""The variable with the folder of the run that a process belongs to."""
LOCK = "lock"
"""The file in it that is locked for as long as anybody needs the folder."""
MEMBERS = "members"
"""The file in it that forks of whoever has started the run hold open, whose environment is of before the run."""
FILES = "files"
"""The file in it that names others, elsewhere, to be gone with the run: identity and path, a line each."""

ENDED_S = 8.0
LOOK_S = 0.05
YOUNG_S = 60.0


def main() -> None:
    """Wait for the end of whoever holds the other end of the pipe, then tidy up."""
    folder, starter = sys.argv[1], int(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    # Another process may need what is shared: then it has a guard too.
    if "shared" not in sys.argv or is_left(Path(folder)):
        clean(Path(folder), starter)


def is_left(folder: Path) -> bool:
    """Tell whether nobody needs a shared folder any more, now that one of its holders has ended."""
    # A process that is killed lets go of its pipes some time before its locks.
    end_s = time.monotonic() + ENDED_S
    while not (stale := is_stale(folder)) and time.monotonic() < end_s:
        time.sleep(LOOK_S)
    return stale


def clean(folder: Path, starter: int) -> None:
    """End what belongs to a run, but for whoever has started it, and remove its files."""
    end_s = time.monotonic() + ENDED_S
    while family := list(members(folder, {starter, os.getpid()})):
        for process in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > end_s:
            break
        time.sleep(LOOK_S)
    remove_named(folder)
    shutil.rmtree(folder, ignore_errors=True)


def members(folder: Path, others: set[int]) -> Iterator[int]:
    """Yield the processes of this user that belong to a run, but for `others`."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) not in others:
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == os.geteuid() and belongs(Path(entry.path), str(folder)):
                    yield int(entry.name)


def belongs(process: Path, folder: str) -> bool:
    """Tell whether a process is of the run with a folder. Raise OSError if it is gone."""
    if f"{MARK}={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
        return True
    files = list(open_files(process))
    # Ray's actors have written over their environment to have names.
    is_actor = (process / "cmdline").read_bytes().startswith(b"ray::")
    return f"{folder}/{MEMBERS}" in files or (is_actor and any(file.startswith(f"{folder}/") for file in files))


def open_files(process: Path) -> Iterator[str]:
    """Yield the paths of the files that a process has open. Raise OSError if it is gone."""
    for file in (process / "fd").iterdir():
        # Some are closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(file)


def remove_named(folder: Path) -> None:
    """Remove the files elsewhere, unless others stand in their place by now."""
    with contextlib.suppress(OSError):
        for line in (folder / FILES).read_text(encoding="utf-8").splitlines():
            known, _, path = line.partition(" ")
            remove_known(path, known)


def remove_known(path: str, known: str) -> None:
    """Remove a file of that identity, unless it is gone, or another one stands in its place by now."""
    with contextlib.suppress(OSError):
        if identity(path) == known:
            os.unlink(path)


def identity(path: str) -> str:
    """Return what tells a file from another one of its name. Raise OSError if it is gone."""
    found = os.stat(path)
    return f"{found.st_ino}-{found.st_mtime_ns}"


def is_stale(folder: Path) -> bool:
    """Tell whether nobody needs a run's folder any more."""
    try:
        if not (folder / LOCK).exists():
            # It was made a moment ago, or by someone who had no more than that moment.
            return time.time() - folder.stat().st_mtime > YOUNG_S
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()

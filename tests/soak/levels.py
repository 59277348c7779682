"""What each process of a server holds: memory, files and threads."""

from pathlib import Path
from typing import NamedTuple

import psutil

from tests.serving.forks import FORKS

MIB = 1 << 20


class Level(NamedTuple):
    """Of one process, or of several of one name together."""

    rss_bytes: int
    files: int
    threads: int

    def __add__(self, other: object) -> "Level":
        assert isinstance(other, Level)
        return Level(*(one + more for one, more in zip(self, other, strict=True)))

    def __str__(self) -> str:
        return f"{self.rss_bytes / MIB:.0f} MiB, {self.files} files, {self.threads} threads"


def levels(pid: int) -> dict[str, Level]:
    """By name, of a process and all below it."""
    found: dict[str, Level] = {}
    for each in family(pid):
        try:
            name, level = _name(each), _level(each)
        except (OSError, psutil.Error):
            continue  # It has ended in the meantime.
        found[name] = found.get(name, Level(0, 0, 0)) + level
    return found


def family(pid: int) -> list[int]:
    """A process, all below it, and all of its session: a fork outlives the process that it is a fork of."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                _, parent, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            orphan = session == str(pid) and parent == "1"
            parents.setdefault(pid if orphan else int(parent), []).append(int(folder.name))
    found, pending = [], [pid]
    while pending:
        found.append(pending.pop())
        pending += parents.get(found[-1], [])
    return found


def _name(pid: int) -> str:
    name = psutil.Process(pid).name()
    if name in FORKS:
        return name
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    first = command[0].decode(errors="replace")
    return "edge" if b"serving.cli" in command else first.rpartition("/")[2].partition(".")[0]


def _level(pid: int) -> Level:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Level(int(status.get("VmRSS", "0 kB").split()[0]) * 1024, files, int(status["Threads"]))

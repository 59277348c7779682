"""Checks of a host: what it lacks to serve, what bounds it, and what to do about it."""

import os
import re
import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import psutil

# A server with its actors held 1.3 GB (proportional set size, one device, foreserve-moe) before it was ready.
SERVER_BYTES = 2e9
# Ray's object store, in shared memory (`serving.cluster.session.ray_session`).
SHARED_BYTES = 100 * 2**20
# A stream takes a connection, for which a server takes no more than half of its files (`serving.api.http_protocol`).
FILES_PER_STREAM = 2
STREAMS = 256
CORES = 2
BACKLOG = Path("/proc/sys/net/core/somaxconn")
CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


class HostCheck(NamedTuple):
    """What was looked at, what was found, whether that will do, and otherwise why not and what helps."""

    what: str
    found: str
    ok: bool
    advice: str = ""


def host_checks() -> list[HostCheck]:
    """Return all checks, those that bound streams last."""
    return [_modules(), _cores(), _busy(), _memory(), _shared_memory(), *_files(), *_backlog()]


def cores() -> int:
    """Return the processors that this process may use, at least one: as many as it may take the time of, where its
    container has a limit (`docker run --cpus`)."""
    quotas = (int(quota) / int(period) for quota, period in (text.split() for _, text in _limits("cpu.max")))
    return max(1, int(min([len(os.sched_getaffinity(0)), *quotas])))


def _limits(name: str) -> Iterator[tuple[Path, str]]:
    """Yield the limits in a file of this process's control group and of those above it, where there are any, each with
    its group's folder (cgroup v2; a container sees its own as the root)."""
    with suppress(OSError):
        groups = re.findall("^0::/?(.*)$", OWN_CGROUP.read_text(encoding="utf-8"), re.MULTILINE)
        for folder in {CGROUPS, *(CGROUPS / above for own in groups for above in (own, *Path(own).parents))}:
            with suppress(OSError):
                text = (folder / name).read_text(encoding="ascii").strip()
                if not text.startswith("max"):
                    yield folder, text


def _left(group: Path, limit: int) -> int:
    """Return the bytes that a control group may still have: all of its limit but what it holds, of which files' pages
    that nobody has used for long are given back when they are wanted."""
    with suppress(OSError):
        held = int((group / "memory.current").read_text(encoding="ascii"))
        old_pages = re.search(
            r"^inactive_file (\d+)$", (group / "memory.stat").read_text(encoding="ascii"), re.MULTILINE
        )
        return max(0, limit - held + int(old_pages[1] if old_pages else 0))
    return limit


def _modules() -> HostCheck:
    missing = [name for name in ("vllm", "torch") if find_spec(name) is None]
    advice = "`serve` makes text with them: run `make venv`. Studies, reports and `load` do without."
    return HostCheck("vLLM and torch", f"no {' and no '.join(missing)}" if missing else "there", not missing, advice)


def _cores() -> HostCheck:
    advice = "One core has to make text, keep time and answer clients at once: give it two, or use `--text recorded`."
    return HostCheck("cores", str(cores()), cores() >= CORES, advice)


def _busy() -> HostCheck:
    """Look at what others take of the processors, by the mean of the last minute."""
    load, _, _ = os.getloadavg()
    advice = "Others want the processors too: tokens will come late while they do. End them, or lower `--speed`."
    # They have all processors of the machine, whatever this container's limit.
    is_little = load < len(os.sched_getaffinity(0)) / 2
    return HostCheck("cores to itself", f"{load:.1f} other processes", is_little, advice)


def _memory() -> HostCheck:
    left = (_left(group, int(limit)) for group, limit in _limits("memory.max"))
    free = min([psutil.virtual_memory().available, *left])
    advice = (
        f"A server takes up to {SERVER_BYTES / 1e9:g} GB with its actors: end something, or use a smaller token model."
    )
    return HostCheck("memory available", f"{free / 1e9:.1f} GB", free >= SERVER_BYTES, advice)


def _shared_memory() -> HostCheck:
    folder = Path("/dev/shm")
    free = shutil.disk_usage(folder).free if folder.is_dir() else 0
    advice = f"Ray keeps {SHARED_BYTES / 1e6:.0f} MB there: in a container, start it with --shm-size=256m."
    return HostCheck("shared memory", f"{free / 1e6:,.0f} MB", free >= SHARED_BYTES, advice)


def _files() -> Iterator[HostCheck]:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    streams = files // FILES_PER_STREAM
    found = "no limit" if files < 0 else f"{files:,}, for {streams:,} streams"
    advice = f"A connection takes a file, and half of them are for clients: ulimit -n {FILES_PER_STREAM * STREAMS}."
    yield HostCheck("open files", found, files < 0 or streams >= STREAMS, advice)


def _backlog() -> Iterator[HostCheck]:
    """Look at how many connections may wait to be taken, where the system says so (Linux)."""
    if BACKLOG.is_file():
        waiting = int(BACKLOG.read_text(encoding="ascii"))
        advice = (
            f"So many clients that connect at once wait a second or more: sysctl -w net.core.somaxconn={4 * STREAMS}."
        )
        yield HostCheck("connections that may wait", f"{waiting:,}", waiting >= STREAMS, advice)

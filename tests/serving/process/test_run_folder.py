"""When a run ends, in whatever way, are its processes and files gone, and nobody else's?"""

import contextlib
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from serving.process import guard, run_folder
from tests.patience import until

GONE_S = 60.0

# A run with a child, one that has lost its parent and its session, and one that has a name like an actor's, and neither
# an environment nor anything but an open file that tells whose it is.
RUN = """
import os, subprocess, sys, time
from pathlib import Path
from serving.process.run_folder import gone_with_run, run_folder
with run_folder() as folder:
    (folder / "ray").mkdir()
    named = Path(sys.argv[1])
    named.write_text("ready")
    gone_with_run(named)
    quiet = "start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
    orphan = f"import subprocess; print(subprocess.Popen(['sleep', '600'], {quiet}).pid)"
    child = subprocess.Popen(["sleep", "600"])
    orphan = subprocess.run([sys.executable, "-c", orphan], capture_output=True, text=True).stdout.strip()
    with (folder / "ray" / "log").open("w") as log:
        actor = subprocess.Popen(["ray::Actor", "-c", "import time; time.sleep(600)"],
            executable=sys.executable, env={}, stdout=log)
    print(folder, child.pid, orphan, actor.pid, flush=True)
    sys.stdin.readline()
"""


class Run:
    """One that is under way."""

    def __init__(self, named: Path, place: Path) -> None:
        self.named = named
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(named)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(place)},
        )
        assert self.process.stdout is not None
        folder, *pids = self.process.stdout.readline().split()
        self.folder = Path(folder)
        self.members = [psutil.Process(int(pid)) for pid in pids]

    @property
    def guard(self) -> psutil.Process:
        until(lambda: self._guards())
        return self._guards()[0]

    def _guards(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [each for each in children if any("guard.py" in word for word in words_of(each))]

    @property
    def is_there(self) -> bool:
        return self.folder.exists() and self.named.exists() and all(map(is_alive, self.members))

    def is_gone(self) -> bool:
        return not (self.folder.exists() or self.named.exists() or any(map(is_alive, self.members)))


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def words_of(process: psutil.Process) -> list[str]:
    """Return the words of a process's command; none of one that has ended, and is not waited for yet."""
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


@pytest.fixture
def place() -> Iterator[Path]:
    """Other temporary files of ours, apart from those of other tests, with a name that is short enough for sockets."""
    folder = Path("/tmp") / secrets.token_hex(2)
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def runs(tmp_path: Path, place: Path) -> Iterator[list[Run]]:
    """Two at once."""
    there = [Run(tmp_path / name, place) for name in ("one", "two")]
    yield there
    for run in there:
        run.process.kill()
        run.process.wait()
        until(run.is_gone)


def end(run: Run) -> None:
    assert run.process.stdin is not None
    run.process.stdin.write("\n")
    run.process.stdin.flush()
    assert run.process.wait(GONE_S) == 0
    assert run.is_gone()  # when it ends, all of it has ended


def kill(run: Run) -> None:
    run.process.kill()


def kill_after_its_guard(run: Run) -> None:
    first = run.guard
    first.kill()
    until(lambda: not is_alive(first) and run.guard.pid != first.pid)
    run.process.kill()


@pytest.mark.parametrize("how", [end, kill, kill_after_its_guard])
def test_a_run_takes_all_that_it_has_with_it_and_nothing_of_another(
    runs: list[Run], how: Callable[[Run], None]
) -> None:
    one, two = runs
    assert stat.S_IMODE(one.folder.stat().st_mode) == 0o700
    assert one.is_there and two.is_there
    how(one)
    until(one.is_gone)
    assert two.is_there


def test_what_nobody_has_seen_to_is_seen_to_by_the_next_run(runs: list[Run], tmp_path: Path, place: Path) -> None:
    one, two = runs
    for process in (one.guard, psutil.Process(one.process.pid)):
        process.suspend()  # so that neither can do anything about the other
    one.guard.kill()
    one.process.kill()
    one.process.wait()
    time.sleep(0.3)
    assert one.is_there
    other = Run(tmp_path / "three", place)
    assert one.is_gone() and two.is_there and other.is_there
    end(other)


def test_files_elsewhere_that_are_anothers_by_now_stay(runs: list[Run]) -> None:
    one, _ = runs
    one.named.unlink()
    one.named.with_suffix(".new").write_text("another's")
    one.named.with_suffix(".new").rename(one.named)
    end_and_keep(one)
    assert one.named.read_text() == "another's"
    one.named.unlink()


def end_and_keep(run: Run) -> None:
    run.process.kill()
    until(lambda: not run.folder.exists())


def test_who_only_looks_at_the_files_of_a_run_is_no_part_of_it(runs: list[Run]) -> None:
    one, _ = runs
    reader = subprocess.Popen(["tail", "-f", str(one.folder / "ray" / "log")], stderr=subprocess.DEVNULL)
    try:
        end(one)
        assert reader.poll() is None
    finally:
        reader.kill()
        reader.wait()


def test_a_shared_folder_is_left_to_the_last_who_holds_it(place: Path) -> None:
    folder = place / f"{run_folder.PREFIX}x"
    code = (
        "import sys; from pathlib import Path; from serving.process.run_folder import share\n"
        "share(Path(sys.argv[1])); print('there', flush=True); sys.stdin.readline()"
    )
    holders = [
        subprocess.Popen([sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for each in holders:
        assert each.stdout is not None and each.stdout.readline() == b"there\n"
    assert not guard.is_stale(folder)
    holders[0].kill()
    time.sleep(0.5)
    assert folder.exists()
    holders[1].kill()
    until(lambda: not folder.exists())
    for each in holders:
        each.wait()


def test_a_folder_without_a_lock_is_stale_only_when_it_is_old(place: Path) -> None:
    folder = place / f"{run_folder.PREFIX}y"
    folder.mkdir()
    assert not guard.is_stale(folder)
    os.utime(folder, (0, 0))
    assert guard.is_stale(folder)


def test_a_polite_end_anywhere_in_a_run_is_at_once_and_has_its_code(tmp_path: Path, place: Path) -> None:
    code = RUN.replace(
        "import os,",
        "from serving.process.shutdown import end_at_once_when_told\nend_at_once_when_told()\nimport os,",
        1,
    )
    for number, expected in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "f")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(place)},
        )
        assert process.stdout is not None and process.stderr is not None
        folder = Path(process.stdout.readline().split()[0])
        process.send_signal(number)
        assert process.wait(GONE_S) == expected
        assert process.stderr.read() == ""
        assert not folder.exists() and not (tmp_path / "f").exists()


def test_a_polite_end_is_heard_while_the_main_thread_hears_nothing() -> None:
    code = """
import ctypes
from serving.process.shutdown import end_at_once_when_told
end_at_once_when_told()
mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
lock(mutex)
print("held", flush=True)
lock(mutex)
"""
    for number, expected in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"held\n"
            process.send_signal(number)
            try:
                assert process.wait(GONE_S) == expected
            finally:
                process.kill()

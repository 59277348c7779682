"""The fork server: does a fork run a program as a Python of its own would, and does whoever asks always get one?"""

import concurrent.futures
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from serving.process.forks import forked_python
from serving.process.forks.forked_python import ASK
from serving.process.forks.forker import ALIVE, PROBE
from tests.patience import PATIENCE_S, until

# Slow to import, as vLLM is.
MODULE = "import time; time.sleep(1.0)"
PROGRAM = """
import json, os, sys
told = {
    "arguments": sys.argv[1:], "name": __name__, "folder": os.getcwd(), "environment": dict(os.environ),
    "preloaded": "heavy" in sys.modules, "more": "more" in sys.modules,
    "beside": sys.path[0], "pid": os.getpid(), "parent": os.getppid(),
    "group": os.getpgid(0), "session": os.getsid(0), "given": sys.stdin.read(),
    "niceness": os.getpriority(os.PRIO_PROCESS, 0),
}
print(json.dumps(told))
sys.stdout.flush()
print("to errors", file=sys.stderr)
"""
LONG = {f"LONG_{index}": "x" * 100_000 for index in range(8)}
# A fork server yields to everything else.
WAIT_S = PATIENCE_S
# More than a test has.
NICENESS = 19
NAME = "forks-of-a-test"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("heavy", "more"):
        (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def forks(place: Path) -> Iterator["subprocess.Popen[bytes]"]:
    process = started(place)
    yield process
    process.terminate()
    process.wait()


def started(place: Path) -> "subprocess.Popen[bytes]":
    """Start a fork server, which listens."""
    process = subprocess.Popen(server_command(place), env=environment(place))
    until((place / "forks").exists)
    return process


def server_command(place: Path) -> list[str]:
    """The command of a fork server."""
    module = "serving.process.forks.fork_server"
    return [sys.executable, "-m", module, str(place / "forks"), "heavy", str(NICENESS), NAME]


def environment(place: Path) -> dict[str, str]:
    """The environment of a fork server, which finds what it is to import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(place), os.getcwd()))}


def forker(server: "subprocess.Popen[bytes]") -> int:
    """The process of the server's forker, once there is one."""
    until(psutil.Process(server.pid).children)
    return int(psutil.Process(server.pid).children()[0].pid)


def run(place: Path, program: str = "program.py", *arguments: str, **environment: str) -> str:
    """Have a program run in a folder and an environment of its own; its errors, once it has written one."""
    command = [sys.executable, "-I", "-S", forked_python.__file__, str(place / "forks"), str(place / program)]
    # No pipes: a server that is stopped may hold them.
    with (
        (place / "given").open("w+") as given,
        (place / "out").open("w") as out,
        (place / "errors").open("w") as errors,
    ):
        given.write("for it")
        given.seek(0)
        environment["ONLY"], command = "this", [*command, *arguments]
        subprocess.run(
            command, stdin=given, stdout=out, stderr=errors, cwd="/", env=environment, timeout=60, check=True
        )
    until(lambda: (place / "errors").read_text().endswith("\n"))
    return (place / "errors").read_text()


def told(place: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """What the program tells of itself."""
    assert run(place, "program.py", *arguments, **environment) == "to errors\n"
    found: dict[str, Any] = json.loads((place / "out").read_text())
    return found


def test_a_fork_runs_a_program_as_a_python_of_its_own_would(place: Path, forks: "subprocess.Popen[bytes]") -> None:
    found = told(place, "one", "and another")
    assert found["preloaded"] and found["parent"] == forker(forks)
    assert found["arguments"] == ["one", "and another"] and found["name"] == "__main__"
    assert found["niceness"] == NICENESS
    assert psutil.Process(forks.pid).name() == NAME
    assert found["folder"] == "/" and found["beside"] == str(place) and found["given"] == "for it"
    assert found["environment"]["ONLY"] == "this" and "PYTHONPATH" not in found["environment"]
    # Whoever ends all of its group ends no other.
    assert found["group"] == found["pid"]
    # Niceness counts only among those of a session.
    assert found["session"] == os.getsid(forks.pid)
    # It has ended, and nobody had to wait for it.
    until(lambda: not psutil.Process(forker(forks)).children())


def test_an_environment_may_be_long(place: Path, forks: "subprocess.Popen[bytes]") -> None:
    found = told(place, **LONG)
    assert found["parent"] == forker(forks) and LONG.items() <= found["environment"].items()


def test_an_environment_may_have_bytes_that_are_no_text(place: Path, forks: "subprocess.Popen[bytes]") -> None:
    odd = os.fsdecode(b"\xff")
    found = told(place, odd, ODD=odd)
    assert found["preloaded"] and found["environment"]["ODD"] == odd and found["arguments"] == [odd]


def test_whoever_gets_no_answer_runs_the_program_itself(place: Path) -> None:
    found = told(place, "one")
    assert not found["preloaded"] and found["arguments"] == ["one"] and found["given"] == "for it"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_forker_that_dies_or_is_stopped_is_replaced_and_nothing_runs_twice(
    place: Path, forks: "subprocess.Popen[bytes]", number: int
) -> None:
    (place / "program.py").write_text(
        f"import os\nwith open({str(place / 'runs')!r}, 'a') as file: print(os.getppid(), file=file)\n{PROGRAM}"
    )
    told(place)
    first = forker(forks)
    os.kill(first, number)
    began = time.monotonic()
    # More than a socket holds.
    assert told(place, **LONG)["preloaded"]
    assert time.monotonic() - began < WAIT_S
    assert (place / "runs").read_text().split() == [str(first), str(forker(forks))]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_forker_goes_on_until_another_server_takes_its_place(
    place: Path, forks: "subprocess.Popen[bytes]", number: int
) -> None:
    assert told(place)["preloaded"]
    first = forker(forks)
    os.kill(forks.pid, number)
    assert told(place)["parent"] == first
    # The forker has ended one that somebody stopped.
    assert forks.wait(WAIT_S) == -signal.SIGKILL
    second = started(place)
    try:
        began = time.monotonic()
        while (found := told(place))["parent"] != forker(second):
            assert found["preloaded"] and time.monotonic() - began < WAIT_S
        until(lambda: not psutil.pid_exists(first))
    finally:
        second.terminate()
        second.wait()


def test_whoever_waits_for_a_server_that_ends_runs_the_program_itself(
    place: Path, forks: "subprocess.Popen[bytes]"
) -> None:
    # It has not imported the module yet.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(told, place)
        time.sleep(0.3)
        forks.kill()
        assert not asked.result()["preloaded"]


@pytest.mark.slow
def test_nonsense_at_its_socket_hurts_nobody(place: Path, forks: "subprocess.Popen[bytes]") -> None:
    told(place)
    server = psutil.Process(forker(forks))
    descriptors = server.num_fds()
    folder = os.open(place, os.O_RDONLY)
    wrong = (b"null", b"{}", b'{"arguments": [], "folder": 1, "environment": {}}', b"")
    for said, file in itertools.product((b"\xff" * 4096, ASK, b"\0", b""), (*wrong, None)):
        for streams in ([], [0], [0, 1, 2]):
            with socket.socket(socket.AF_UNIX) as asking, tempfile.TemporaryFile() as program:
                asking.connect(str(place / "forks"))
                program.write(file or b"")
                program.flush()
                if said:
                    # A file, or a directory, which can't be read.
                    last = folder if file is None else program.fileno()
                    socket.send_fds(asking, [said], [*streams, last])
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(place / "forks"))
        assert told(place)["preloaded"]
    with socket.socket(socket.AF_UNIX) as probing:
        probing.settimeout(WAIT_S)
        probing.connect(str(place / "forks"))
        probing.sendall(PROBE)
        assert probing.recv(8) == ALIVE
    os.close(folder)
    until(lambda: server.num_fds() == descriptors)
    assert forker(forks) == server.pid


def test_a_program_that_fails_is_its_own_affair(place: Path, forks: "subprocess.Popen[bytes]") -> None:
    (place / "fails.py").write_text("raise ValueError('of its own')")
    assert "Traceback" in run(place, "fails.py")
    # It is written line by line, each of which ends as the last one does.
    until(lambda: "ValueError: of its own" in (place / "errors").read_text())
    assert told(place)["preloaded"]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_it_ends_with_whoever_keeps_it(place: Path, number: int) -> None:
    keeper = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import pathlib, time, {__name__} as it\nit.started(pathlib.Path({str(place)!r})); time.sleep(600)",
        ],
    )
    until(psutil.Process(keeper.pid).children)
    server = psutil.Process(keeper.pid).children()[0]
    until(server.children)
    family = [server, *server.children()]
    keeper.send_signal(number)
    keeper.wait()
    assert not psutil.wait_procs(family, WAIT_S)[1]


def test_its_forker_ends_with_it(forks: "subprocess.Popen[bytes]") -> None:
    last = psutil.Process(forker(forks))
    forks.terminate()
    assert forks.wait(WAIT_S) == 0
    assert not last.is_running()


def test_nor_does_one_stay_that_was_forked_when_its_server_was_ended(place: Path) -> None:
    # It hears of its end before it knows of the fork.
    code = f"""
import os, signal, sys
fork = os.fork
def fork_and_be_ended():
    pid = fork()
    if pid:
        os.kill(os.getpid(), signal.SIGTERM)
    return pid
os.fork = fork_and_be_ended
from serving.process.forks import fork_server
sys.argv = {server_command(place)[2:]!r}
fork_server.main()
"""
    before = set(psutil.pids())
    assert subprocess.run([sys.executable, "-c", code], env=environment(place), timeout=WAIT_S).returncode == 0
    left = [each for each in psutil.process_iter(["cmdline"]) if each.pid not in before]
    assert not [each for each in left if str(place) in " ".join(each.info["cmdline"] or ())]


def test_a_server_without_standard_streams_gives_forks_those_of_who_asks(place: Path) -> None:
    command = [
        sys.executable,
        "-c",
        f"import os\nfor number in 0, 1, 2: os.close(number)\nos.execv({sys.executable!r}, {server_command(place)!r})",
    ]
    process = subprocess.Popen(command, env=environment(place))
    until((place / "forks").exists)
    try:
        found = told(place)
        assert found["preloaded"] and found["given"] == "for it"
    finally:
        process.terminate()
        process.wait()


KEEPER = """
import socket, sys
from pathlib import Path
from serving.process.forks.fork_server import fork_server_of
from serving.process.run_folder import run_folder
import heavy
with run_folder() as folder, socket.create_server(("127.0.0.1", 0)) as port:
    print(folder, port.getsockname()[1], fork_server_of(folder, "forks", "more"), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def kept(place: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process in a run of its own, from which a fork server was forked off."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    keeper = subprocess.Popen([sys.executable, "-c", KEEPER], env=environment(place), **pipes)  # type: ignore[call-overload]
    yield keeper
    keeper.kill()
    keeper.communicate()


def family_of(keeper: "subprocess.Popen[str]") -> tuple[Path, int, list[psutil.Process]]:
    """The folder of its run, its port, and its fork server with the forker."""
    assert keeper.stdout is not None
    folder, port, pid = keeper.stdout.readline().split()
    server = psutil.Process(int(pid))
    until(server.children)
    return Path(folder), int(port), [server, *server.children()]


def test_one_forked_off_forks_with_what_its_keeper_had_imported(place: Path, kept: "subprocess.Popen[str]") -> None:
    folder, _, [server, forker] = family_of(kept)
    (place / "forks").symlink_to(folder / "forks")
    found = told(place, "of its own")
    assert found["preloaded"] and found["more"]
    assert found["name"] == "__main__" and found["arguments"] == ["of its own"]
    assert found["parent"] == forker.pid and found["environment"]["ONLY"] == "this"
    assert server.ppid() == kept.pid
    # Whoever ends one group must not end the others.
    assert len({os.getpgid(each) for each in (kept.pid, server.pid, found["pid"]) if psutil.pid_exists(each)}) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_one_forked_off_holds_nothing_of_its_keepers_when_that_ends(
    kept: "subprocess.Popen[str]", number: signal.Signals, stopped: bool
) -> None:
    folder, port, family = family_of(kept)
    for each in family if stopped else []:
        each.suspend()
    kept.send_signal(number)
    kept.wait()
    # At once, whoever else is still there.
    socket.create_server(("127.0.0.1", port)).close()
    assert not psutil.wait_procs(family, WAIT_S)[1]
    until(lambda: not folder.exists())


def test_one_forked_off_that_is_killed_leaves_a_forker_that_goes_on(place: Path, kept: "subprocess.Popen[str]") -> None:
    folder, _, [server, forker] = family_of(kept)
    (place / "forks").symlink_to(folder / "forks")
    server.kill()
    found = told(place)
    assert found["preloaded"] and found["parent"] == forker.pid

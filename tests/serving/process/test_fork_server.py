"""The fork server: does a fork run a program as a Python of its own would, and does whoever asks always get one?"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from serving.process import forked_python
from serving.process.fork_server import ALIVE, HEARD_S, PROBE
from serving.process.forked_python import ASK

# Slow to import, as vLLM is.
MODULE = "import time; time.sleep(1.0)"
PROGRAM = """
import json, os, sys
told = {
    "arguments": sys.argv[1:], "name": __name__, "folder": os.getcwd(), "environment": dict(os.environ),
    "preloaded": "heavy" in sys.modules, "beside": sys.path[0], "pid": os.getpid(), "parent": os.getppid(),
    "group": os.getpgid(0), "session": os.getsid(0), "given": sys.stdin.read(),
    "niceness": os.getpriority(os.PRIO_PROCESS, 0),
}
print(json.dumps(told))
sys.stdout.flush()
print("to errors", file=sys.stderr)
"""
LONG = {f"LONG_{index}": "x" * 100_000 for index in range(8)}
WAIT_S = 20.0
# More than a test has.
NICENESS = 19


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "heavy.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def forks(place: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "serving.process.fork_server", str(place / "forks"), "heavy", str(NICENESS)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(place), os.getcwd()))}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    process.stdin.write(bytes(8))
    process.stdin.flush()
    until((place / "forks").exists)
    yield process
    process.kill()
    process.wait()


def until(there: Callable[[], object]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not there():
        assert time.monotonic() < end_s
        time.sleep(0.02)


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
    assert found["preloaded"] and found["parent"] == forks.pid
    assert found["arguments"] == ["one", "and another"] and found["name"] == "__main__"
    assert found["niceness"] == NICENESS
    assert found["folder"] == "/" and found["beside"] == str(place) and found["given"] == "for it"
    assert found["environment"]["ONLY"] == "this" and "PYTHONPATH" not in found["environment"]
    # Whoever ends all of its group ends no other.
    assert found["group"] == found["pid"]
    # Niceness counts only among those of a session.
    assert found["session"] == os.getsid(forks.pid)
    # It has ended, and nobody had to wait for it.
    until(lambda: not psutil.Process(forks.pid).children())


def test_an_environment_may_be_long(place: Path, forks: "subprocess.Popen[bytes]") -> None:
    found = told(place, **LONG)
    assert found["parent"] == forks.pid and LONG.items() <= found["environment"].items()


def test_whoever_gets_no_answer_runs_the_program_itself(place: Path) -> None:
    found = told(place, "one")
    assert not found["preloaded"] and found["arguments"] == ["one"] and found["given"] == "for it"


def test_a_stopped_server_keeps_nobody_waiting_and_runs_nothing_twice(
    place: Path, forks: "subprocess.Popen[bytes]"
) -> None:
    (place / "program.py").write_text(
        f"import os\nwith open({str(place / 'runs')!r}, 'a') as file: print(os.getppid(), file=file)\n{PROGRAM}"
    )
    told(place)
    forks.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    # More than a socket holds.
    assert not told(place, **LONG)["preloaded"]
    assert time.monotonic() - began < 5.0
    forks.send_signal(signal.SIGCONT)
    assert told(place)["preloaded"]
    ran = (place / "runs").read_text().split()
    assert len(ran) == 3 and ran.count(str(forks.pid)) == 2


def test_nonsense_at_its_socket_hurts_nobody(place: Path, forks: "subprocess.Popen[bytes]") -> None:
    told(place)
    descriptors = psutil.Process(forks.pid).num_fds()
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
        probing.settimeout(HEARD_S)
        probing.connect(str(place / "forks"))
        probing.sendall(PROBE)
        assert probing.recv(8) == ALIVE
    os.close(folder)
    until(lambda: psutil.Process(forks.pid).num_fds() == descriptors)
    assert forks.poll() is None


def test_a_program_that_fails_is_its_own_affair(place: Path, forks: "subprocess.Popen[bytes]") -> None:
    (place / "fails.py").write_text("raise ValueError('of its own')")
    assert "ValueError: of its own" in run(place, "fails.py")
    assert told(place)["preloaded"]


def test_it_ends_with_whoever_keeps_it(forks: "subprocess.Popen[bytes]") -> None:
    assert forks.stdin is not None
    forks.stdin.close()
    assert forks.wait(WAIT_S) == 0

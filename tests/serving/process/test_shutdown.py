"""Real servers that end in bad ways: is all of them gone soon, with the right exit code, and another one unharmed?"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai
import psutil
import pytest

from serving.process.run_folder import PREFIX, place
from serving.process.server_process import ServerProcess
from tests.conftest import MODEL
from tests.patience import until
from tests.serving.cluster.test_recovery import ask
from tests.serving.process.test_run_folder import is_alive, words_of

GONE_S = 60.0

pytestmark = pytest.mark.alone


def family(process: int) -> list[psutil.Process]:
    return psutil.Process(process).children(recursive=True)


def guards_of(members: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in members if any("guard.py" in word for word in words_of(each))]


def guard_of(members: list[psutil.Process]) -> psutil.Process:
    [guard] = guards_of(members)
    return guard


def guarded(process: int) -> list[psutil.Process]:
    """The family of a process, once a guard is among it."""
    until(lambda: guards_of(family(process)))
    return family(process)


def folder_of(members: list[psutil.Process]) -> Path:
    """The folder of a run, from what its guard was told."""
    [folder] = [Path(word) for word in words_of(guard_of(members)) if PREFIX in word]
    assert folder.parent == place() and folder.exists()
    return folder


def assert_gone(members: list[psutil.Process], folder: Path) -> None:
    _, alive = psutil.wait_procs(members, timeout=GONE_S)
    assert not [each for each in alive if is_alive(each)]
    until(lambda: not folder.exists(), GONE_S)


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[Callable[[str], "subprocess.Popen[str]"]]:
    """A server whose start has come to where it says something."""
    begun: list[subprocess.Popen[str]] = []

    def start(said: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "serving.cli", "serve", "--http-port", "0", "--grpc-port", "0"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([*command, "--ready-file", str(tmp_path / "ready")], start_new_session=True, **pipes)  # type: ignore[call-overload]
        begun.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if said in line:
                return process  # type: ignore[no-any-return]
        raise AssertionError(process.stderr.read())

    yield start
    for each in begun:
        each.kill()
        each.communicate()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("said", "number", "code"),
    [
        ("Importing vLLM", signal.SIGINT, 130),
        pytest.param("Starting Ray", signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param("Starting the token source", signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param("Starting the token source", signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param("Starting the token source", signal.SIGKILL, -9, marks=pytest.mark.slow),
    ],
)
def test_a_start_that_is_ended_leaves_nothing_and_says_nothing(
    emulator: ServerProcess, starting: Callable[[str], "subprocess.Popen[str]"], said: str, number: int, code: int
) -> None:
    process = starting(said)
    guarded(process.pid)
    # So that more of its processes have begun.
    time.sleep(1.5)
    members = family(process.pid)
    folder = folder_of(members)
    process.send_signal(number)
    assert process.wait(GONE_S) == code
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert_gone(members, folder)
    assert httpx.get(f"{emulator.http_url}/health", timeout=60).status_code == 200


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_who_is_ended_while_it_waits_for_a_server_takes_that_with_it(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "serving.cli", "demo", "--token-model", "foreserve-tiny"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    demo = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(tmp_path)}, start_new_session=True, **quiet)  # type: ignore[call-overload]
    try:
        members = guarded(demo.pid)
        folder = folder_of(members)
        demo.send_signal(number)
        assert demo.wait(GONE_S) == code and demo.stderr.read() == ""
        assert_gone(members, folder)
        assert list(tmp_path.iterdir()) == []
    finally:
        demo.kill()


# It is the last one that asks for this server.
@pytest.mark.timeout(300)
def test_an_edge_that_is_killed_under_load_takes_all_with_it_but_not_another_server(
    emulator: ServerProcess, client: openai.OpenAI, recorded_emulator: ServerProcess, discovery: Path
) -> None:
    """And so it does if its guard is killed before."""
    expected = ask(client, 3, [])
    child = recorded_emulator
    assert discovery.exists()
    load = [threading.Thread(target=stream, args=[child.http_url]) for _ in range(4)]
    for each in load:
        each.start()
    time.sleep(1)
    members = family(child.process.pid)
    assert len(members) > 8
    folder = folder_of(members)
    assert any(folder.glob("rendezvous-*")), "what vLLM's engine leaves goes with the run too"
    first = guard_of(members)
    first.kill()
    until(lambda: any(each.pid != first.pid for each in guards_of(family(child.process.pid))))
    child.process.kill()
    child.process.wait()
    assert_gone(members, folder)
    assert not discovery.exists()
    for each in load:
        each.join(GONE_S)
    assert ask(client, 3, []) == expected


def stream(url: str) -> None:
    try:
        body = {"model": MODEL, "prompt": "Hello", "max_tokens": 900, "seed": 1, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as answer:
            for _ in answer.iter_lines():
                pass
    except httpx.HTTPError:
        pass  # as it must be


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_server_ends_with_the_process_that_has_started_it() -> None:
    code = (
        "import sys, time\nfrom serving.process.server_process import server\n"
        "with server(quiet=True) as child:\n    print(child.process.pid, flush=True)\n    time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    edge = psutil.Process(int(parent.stdout.readline()))
    members = [edge, *edge.children(recursive=True)]
    folder = folder_of(members)
    parent.kill()
    parent.wait()
    os.close(parent.stdout.fileno())
    _, alive = psutil.wait_procs(members, timeout=2 * GONE_S)
    assert not alive and not folder.exists()

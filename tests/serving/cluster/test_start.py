"""Processes of a server are killed, or stopped, before it is ready: it is ready a little later, or says why not."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from serving.process.forks.fork_off import ACTOR_FORKS, EDGE, FORK_SERVER
from serving.process.server_process import server
from serving.scenario.scenario import Scenario
from serving.token_source.vllm_args import provide_cache
from tests.conftest import MODEL
from tests.serving.forks import is_named

TINY = ("--token-model", "foreserve-tiny")
STOP, KILL = signal.SIGSTOP, signal.SIGKILL
HITS = [
    *((kind, STOP) for kind in (FORK_SERVER, ACTOR_FORKS, EDGE)),
    *((f"ray::{kind}", STOP) for kind in ("TokenSource", "HbXpu", "SchedulerActor", "LpddrActor")),
    *((kind, KILL) for kind in ("ray::TokenSource", "ray::HbXpu", EDGE)),
]


@contextlib.contextmanager
def hitting(kind: str, how: signal.Signals, instead: str = "") -> Iterator[list[int]]:
    """Send a signal, once, to the first process of a kind that this one's children start, or to another one by its
    name; yield the list that it is in then."""
    hit, over = list[int](), threading.Event()
    before = set(psutil.Process().children(recursive=True))

    def look() -> None:
        while not hit and not over.wait(0.05):
            there = set(psutil.Process().children(recursive=True)) - before
            with contextlib.suppress(psutil.Error, StopIteration):
                found = next(process for process in there if is_named(process, kind))
                victim = next(process for process in there if process.name() == instead) if instead else found
                time.sleep(0.3)
                victim.send_signal(how)
                hit.append(victim.pid)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield hit
    finally:
        over.set()
        looking.join()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("kind", "how"), HITS)
def test_a_server_is_ready_though_a_part_is_hit_while_it_starts(kind: str, how: signal.Signals, tmp_path: Path) -> None:
    edges = ("--edges", "2") if kind == EDGE else ()
    with hitting(kind, how) as hit, server(*TINY, *edges, quiet=True, log=tmp_path / "log") as child:
        assert hit
        asked = {"model": MODEL, "prompt": "Hello", "max_tokens": 8, "ignore_eos": True}
        answer = httpx.post(f"{child.http_url}/v1/completions", json=asked, timeout=60)
        assert answer.json()["usage"]["completion_tokens"] == 8
        assert not psutil.pid_exists(hit[0])
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log and "fork_posix" not in log


def failed_start(*options: str) -> tuple[int, str]:
    """The exit code of a server that does not start, and what it says."""
    command = [sys.executable, "-m", "serving.cli", "serve", "--http-port", "0", "--grpc-port", "0", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    return ended.returncode, ended.stderr


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_start_without_ray_ends_with_a_sentence() -> None:
    with hitting("ray::TokenSource", KILL, instead="raylet") as hit:
        code, said = failed_start(*TINY)
    assert hit and code == os.EX_TEMPFAIL and "Ray's raylet (process" in said and "Traceback" not in said


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_token_model_that_vllm_cannot_read_is_refused_with_a_sentence(tmp_path: Path) -> None:
    shutil.copytree(Scenario().token_model, tmp_path / "cut")
    os.truncate(tmp_path / "cut" / "model.safetensors", 1000)
    code, said = failed_start("--token-model", str(tmp_path / "cut"))
    assert code == 2 and "Traceback" not in said
    assert f"`token_model` is '{tmp_path}/cut', with which vLLM cannot start: " in said.splitlines()[-1]


def test_vllm_has_a_cache_where_there_is_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_CACHE_ROOT", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    provide_cache(tmp_path)
    assert "VLLM_CACHE_ROOT" not in os.environ
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    # Restored, whatever is set now.
    monkeypatch.setenv("VLLM_CACHE_ROOT", "")
    del os.environ["VLLM_CACHE_ROOT"]
    provide_cache(tmp_path)
    assert os.environ["VLLM_CACHE_ROOT"] == str(tmp_path / "vllm")

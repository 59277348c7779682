"""What the Dockerfile says to do, done without an engine: its own commands build what its entry point then serves."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from serving.process.server_process import server
from tests.deploy.files import ROOT, Instruction, dockerfile, ignored, instruction

pytestmark = pytest.mark.beside
HOME = "/opt/foreserve"
UP_S = 300.0


class Image:
    """A folder that stands for an image's root, and what its instructions do there.

    Not done: what needs root (Debian's packages, the user), and cache mounts, for which the machine has its own.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / HOME.strip("/")
        self.env = {
            key: os.environ[key] for key in os.environ if not key.startswith(("FORESERVE", "VIRTUAL", "PYTHON"))
        }
        (root / "usr/local/bin").mkdir(parents=True)

    def follow(self, each: Instruction) -> None:
        """One instruction. Stages share the folder, so copies between them are there already."""
        if each.name == "WORKDIR":
            (self.root / each.rest.strip("/")).mkdir(parents=True, exist_ok=True)
        elif each.name == "COPY" and not each.flags:
            self.copy(*each.words)
        elif each.name == "ARG":
            self.env.setdefault(*each.rest.split("="))
        elif each.name == "ENV":
            self.env |= {key: self.mapped(self.filled(value)) for key, value in (w.split("=", 1) for w in each.words)}
        elif each.name == "RUN" and "apt-get" not in each.rest:
            command = ["bash", "-euc", self.mapped(each.rest)]
            subprocess.run(command, cwd=self.home, env=self.env, check=True, timeout=900)

    def copy(self, *words: str) -> None:
        """Only what git knows and .dockerignore lets through."""
        *sources, target = words
        for name in subprocess.check_output(["git", "ls-files", *sources], cwd=ROOT, text=True).splitlines():
            assert not ignored(name)
            (source,) = [each for each in sources if name == each or name.startswith(f"{each}/")]
            inside = Path(target) / Path(name).relative_to(source)
            place = self.home / (inside if name != source else Path(target, Path(name).name))
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place)

    def filled(self, text: str) -> str:
        """With the variables that it names."""
        for key in ("FLAVOUR", "PATH"):
            text = text.replace(f"${{{key}}}", self.env.get(key, "")).replace(f"${key}", self.env.get(key, ""))
        return text

    def mapped(self, text: str) -> str:
        """With the image's paths as they are here."""
        return text.replace(HOME, str(self.home)).replace("/usr/local/bin/", f"{self.root}/usr/local/bin/")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    root = tmp_path_factory.mktemp("image")
    try:
        made = Image(root)
        for each in dockerfile():
            made.follow(each)
        yield made
    finally:
        # Three gigabytes, of which pytest would keep some generations.
        shutil.rmtree(root)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_dockerfiles_commands_make_what_serves_and_ends_on_sigterm(image: Image) -> None:
    entry = instruction("ENTRYPOINT").words
    program = shutil.which(entry[entry.index("--") + 1], path=image.env["PATH"])
    assert program and Path(program).is_relative_to(image.home)
    ready = image.root / "ready.json"
    here = ["--host", "127.0.0.1", "--http-port", "0", "--grpc-port", "0", "--ready-file", str(ready)]
    process = subprocess.Popen([program, *instruction("CMD").words, *here], env=image.env, cwd=image.root)
    try:
        until_written(ready, process)
        url = f"http://127.0.0.1:{httpx.Response(200, content=ready.read_bytes()).json()['http_port']}"
        assert httpx.get(f"{url}/health").status_code == 200
        question = {"model": "qwen3-30b-a3b", "prompt": "What is a cache?", "max_tokens": 8, "ignore_eos": True}
        reply = httpx.post(f"{url}/v1/completions", json=question, timeout=60).json()
        assert reply["usage"]["completion_tokens"] == 8
        family = psutil.Process(process.pid).children(recursive=True)
        assert ends_without_a_trace(process, family) == 0
    finally:
        if process.poll() is None:
            process.kill()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_image_has_no_packages_of_the_tests(image: Image) -> None:
    assert image.env["FORESERVE_FLAVOUR"] == "cpu"
    python = image.home / ".venv/bin/python"
    where = [python, "-c", "import serving, device_model; print(serving.__file__)"]
    there = subprocess.check_output(where, text=True, cwd=image.root)
    assert Path(there.strip()) == image.home / "serving/__init__.py"
    assert subprocess.run([python, "-c", "import pytest"], capture_output=True, cwd=image.root).returncode == 1


def until_written(path: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + UP_S
    while not path.exists() or not path.read_text():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.1)


def ends_without_a_trace(process: subprocess.Popen[Any], family: list[psutil.Process]) -> int:
    """The exit code after SIGTERM, which only the server gets, as from an engine or systemd."""
    process.send_signal(signal.SIGTERM)
    code = process.wait(60)
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    return code


@pytest.mark.slow
def test_sigterm_ends_a_server_that_is_up_with_0() -> None:
    with server(quiet=True) as child:
        family = psutil.Process(child.process.pid).children(recursive=True)
        assert len(family) > 5
        assert ends_without_a_trace(child.process, family) == 0


# tests/serving/process/test_shutdown.py has it, and more, on a machine that is no container.
@pytest.mark.slow
def test_sigterm_ends_a_server_that_is_not_up_yet_with_143() -> None:
    options = ["--http-port", "0", "--grpc-port", "0"]
    command = [sys.executable, "-um", "serving.cli", "serve", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout
        # By then Ray is up, and SIGTERM is its.
        assert any("token source" in line for line in process.stdout)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) > 2
        assert ends_without_a_trace(process, family) == 143
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()

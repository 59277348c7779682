"""Is vLLM's front end in Rust found, refused where it must be, and served by the emulated devices?"""

import contextlib
import time
from pathlib import Path

import httpx
import openai
import psutil
import pytest

from serving.cli.front_ends import rust_front_end
from serving.edge.front_ends.rust_front_end import VARIABLE, RustFrontEnd, find_binary, vllm_version
from serving.edge.preflight import check_rust_front_end, free_port
from serving.process.server_process import ServerProcess, server
from serving.scenario.scenario import RUST_FRONT_END, Scenario, ScenarioError
from serving.usage_error import UsageError
from tests.conftest import MODEL

BACK_S = 30.0


def found() -> bool:
    with contextlib.suppress(UsageError):
        return find_binary().is_file()
    return False


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something that can be run, and is taken for it."""
    path = tmp_path / RUST_FRONT_END
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_a_variable_names_it(program: Path) -> None:
    assert find_binary() == program


@pytest.mark.parametrize("named", ["/nowhere/vllm-rs", "/", __file__])
def test_what_cannot_be_run_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, named)
    with pytest.raises(UsageError, match=f"`{VARIABLE}` is '{named}', which is no program"):
        find_binary()


def test_one_that_is_nowhere_can_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("serving.edge.front_ends.rust_front_end.RUST_FRONT_END", "vllm-none")
    with pytest.raises(ScenarioError, match="fetch it with `make frontend`, or name it with"):
        find_binary()


def test_nobody_gets_past_keys_or_tls_with_it(program: Path) -> None:
    with free_port("127.0.0.1", 0, "port") as sock:
        port = sock.getsockname()[1]
        scenario = Scenario(front_end=RUST_FRONT_END, front_end_port=port)
        with pytest.raises(ScenarioError, match="without foreserve's API keys"):
            check_rust_front_end(scenario, keyed=True, tls=False)
        with pytest.raises(ScenarioError, match="without foreserve's TLS"):
            check_rust_front_end(scenario, keyed=False, tls=True)
        sock.listen()
        with pytest.raises(ScenarioError, match=f"`front_end_port` is {port}"):
            check_rust_front_end(scenario, keyed=False, tls=False)
    check_rust_front_end(scenario, keyed=False, tls=False)


def test_it_is_told_what_it_serves() -> None:
    command = RustFrontEnd(Path("/bin/vllm-rs"), "folder", "name", 2048, "127.0.0.1", 8100, 8150).command
    assert command[:3] == ["/bin/vllm-rs", "serve", "folder"]
    said = dict(zip(command[3::2], command[4::2], strict=True))
    assert (said["--served-model-name"], said["--port"], said["--handshake-port"]) == ("name", "8100", "8150")


def test_it_serves_under_the_name_that_the_edge_does(program: Path) -> None:
    scenario = Scenario(front_end=RUST_FRONT_END, vllm_options=("--served-model-name", "mine"))
    started = rust_front_end(scenario, 2048)
    assert (started.binary, started.name, started.port) == (program, "mine", scenario.front_end_port)
    assert rust_front_end(Scenario(), 2048).name == Scenario().model


def test_the_wheel_that_has_it_is_of_the_version_installed() -> None:
    assert vllm_version().count(".") == 2 and "+" not in vllm_version()


def ask(url: str) -> str:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    answer = client.completions.create(
        model=MODEL, prompt="The law of", max_tokens=24, seed=5, extra_body={"ignore_eos": True}
    )
    return answer.choices[0].text


def front_end_of(child: ServerProcess) -> psutil.Process | None:
    for process in psutil.Process(child.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if Path(process.exe()).name == RUST_FRONT_END:
                return process
    return None


@pytest.mark.slow
@pytest.mark.skipif(not found(), reason="no vllm-rs here: make frontend")
def test_it_serves_the_same_text_and_comes_back() -> None:
    with free_port("127.0.0.1", 0, "port") as sock:
        port = sock.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = ("--front-end", RUST_FRONT_END, "--front-end-port", str(port), "--text", "vllm", "--speed", "4")
    with server(*options, quiet=True) as child:
        until_up(url)
        assert ask(url) == ask(child.http_url)
        first = front_end_of(child)
        assert first is not None
        first.kill()
        first.wait(BACK_S)
        until_up(url)
        assert ask(url) == ask(child.http_url)
        second = front_end_of(child)
        assert second is not None
    assert not second.is_running()


def until_up(url: str) -> None:
    end_s = time.monotonic() + BACK_S
    while time.monotonic() < end_s:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health").status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("vllm-rs is not up")

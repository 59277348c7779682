"""Which exit codes do errors have, and are they one sentence?"""

import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from serving.cli.main import main

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["foreserve", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return command


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["call", "ftp://127.0.0.1:9", "a.B/C"], 1, "'ftp://127.0.0.1:9' is not allowed; allowed is HOST:PORT"),
        (["call", "127.0.0.1:9", "a.B/C"], 1, "UNAVAILABLE: "),
        (["call", "127.0.0.1:9", "a.B/C", "--ca-file", "nowhere"], 2, "TLS cannot be had with nowhere"),
        (["call", "grpc://127.0.0.1:9", "a.B/C", "--ca-file", "ca.pem"], 2, "with TLS it is grpcs://"),
        (["load", "--client-cert", "me.pem"], 2, "--client-cert me.pem has no use with http://127.0.0.1:8000"),
        (["top", "127.0.0.1:9", "--ca-file", "ca.pem"], 2, "--ca-file ca.pem has no use with http://127.0.0.1:9"),
        (["top", "https://127.0.0.1:9", "--client-key", "k.pem"], 2, "k.pem is no use without a --client-cert"),
        (["load", "--url", "http://127.0.0.1:9"], 1, "Nothing answers at http://127.0.0.1:9"),
        (["load", "--rate", "0"], 2, "--rate must be a number above 0"),
        (["top", "http://127.0.0.1:9"], 2, "Nothing answers at http://127.0.0.1:9"),
        (["explain", "--hardware", "abacus"], 2, "There is no hardware 'abacus'"),
    ],
)
def test_an_error_is_a_sentence_and_an_exit_code(run: Run, arguments: list[str], code: int, words: str) -> None:
    ended, told = run(*arguments)
    assert (ended, told.count("\n")) == (code, 1)
    assert told.startswith(f"foreserve {arguments[0]}: ") and words in told


@pytest.mark.parametrize(("name", "told"), [("none", True), ("", False)])
def test_own_specs_that_are_nowhere_are_told_of_where_shipped_ones_do(
    run: Run, name: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESERVE_SPECS", str(tmp_path / name))
    ended, said = run("explain", "--hardware", "h100", "--model", "olmoe-1b-7b")
    sentence = f"foreserve: FORESERVE_SPECS is '{tmp_path / name}', and there is no such folder; allowed is the folder "
    assert ended == 0 and said.startswith(sentence) == told and said.count("\n") == told


def test_the_version_is_the_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["foreserve", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code and capsys.readouterr().out == f"foreserve {version('foreserve')}\n"


def test_a_command_that_is_terminated_twice_ends_once_and_without_a_traceback() -> None:
    command = [sys.executable, "-m", "serving.cli", "validate", "--cross-validate", "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + signal.SIGTERM
    assert first.startswith("Fitting without") and "Traceback" not in told


def test_a_command_whose_stdout_is_closed_ends_as_it_would_else() -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "serving.cli", "systems", "--json"]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
@pytest.mark.parametrize("arguments", [["systems", "--json"], ["explain"]])
def test_a_full_disk_below_the_output_is_a_sentence(arguments: list[str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "serving.cli", *arguments]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    sentence = f"foreserve {arguments[0]}: what it has to say can't be written: No space left on device.\n"
    assert (ended.returncode, ended.stderr) == (1, sentence)

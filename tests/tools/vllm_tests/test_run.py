"""Of vLLM's own tests: is the outcome of each known, also where pytest dies, or can't collect a file?"""

import importlib
import json
from pathlib import Path

import pytest

from serving.process.server_process import ServerFailed
from tools.vllm_tests import run as vllm_tests

DIED = ("failed", "ended pytest itself, or timed out")


def test_what_could_not_be_collected_has_failed_and_the_files_behind_one_that_dies_are_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = ("z.py", "failed", "ImportError")
    said = [
        [lost, ("a.py::one", *DIED), ("a.py::one", "passed", ""), ("a.py::two", *DIED)],
        [lost, ("b.py::three", "passed", ""), ("", "ended", "")],
    ]
    asked: list[list[str]] = []

    def ask(files: list[str], report: str) -> None:
        asked.append(files)
        Path(report).write_text("".join(json.dumps(line) + "\n" for line in said[len(asked) - 1]), encoding="utf-8")

    monkeypatch.setattr(vllm_tests, "ask_pytest", ask)
    outcomes = vllm_tests.run(["a.py", "b.py", "z.py"])
    assert asked == [["a.py", "b.py", "z.py"], ["b.py", "z.py"]]
    assert outcomes == {
        "z.py": ("failed", "ImportError"),
        "a.py::one": ("passed", ""),
        "a.py::two": DIED,
        "b.py::three": ("passed", ""),
    }


def test_where_no_test_begins_none_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(files: list[str], report: str) -> None:
        Path(report).write_text(json.dumps(("a.py", "failed", "ImportError")) + "\n", encoding="utf-8")

    monkeypatch.setattr(vllm_tests, "ask_pytest", ask)
    assert vllm_tests.run(["a.py", "b.py"]) == {"a.py": ("failed", "ImportError")}


def test_a_failure_that_nobody_excuses_is_one_and_so_is_a_run_in_which_none_passes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes = {"a.py::one": ("passed", ""), "a.py::two": ("failed", "4"), "b.py::three": ("skipped", "no")}
    assert vllm_tests.judge(outcomes, ["a.py::t*"]) == 0 and vllm_tests.judge(outcomes, []) == 1
    assert "FAILED a.py::two: 4" in capsys.readouterr().out
    assert vllm_tests.judge_whole(outcomes, ["two", "one", "gone"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "  excused, and did not fail: one",
        "  excused, and did not fail: gone",
    ]
    assert vllm_tests.judge_whole({"b.py::three": ("skipped", "no")}, []) == 1


@pytest.mark.parametrize(
    ("exit_code", "outcome"), [(2, pytest.skip.Exception), (1, pytest.fail.Exception), (None, pytest.fail.Exception)]
)
def test_a_server_that_does_not_start_fails_unless_it_refuses_its_options(
    monkeypatch: pytest.MonkeyPatch, exit_code: int | None, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("FORESERVE_VLLM_REPORT", "nowhere")
    redirect = importlib.import_module("tools.vllm_tests.redirect")

    def want(options: list[str], environment: dict[str, str]) -> None:
        raise ServerFailed("it ended.", exit_code)

    monkeypatch.setattr(redirect.shared, "want", want)
    with pytest.raises(outcome, match="it ended"):
        redirect.begin(object(), "m", [])

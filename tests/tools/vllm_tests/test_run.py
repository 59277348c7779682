"""Of vLLM's own tests: is the outcome of each known, also where pytest dies, or can't collect a file?"""

import json
from pathlib import Path

import pytest

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

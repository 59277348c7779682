"""What CONTRIBUTING says of new things, done: in a copy of the code, one file more for each is found by its name."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples/extending"
STUDY = """
question = "sweep"
title = "Policies of our own beside those that were there"
[axes]
batching = ["fcfs", "shortest-first"]
mode = ["tau", "patient"]
load = [0.25, 1.0]
[scenario]
max_num_seqs = 8
[workload]
requests = 120
prompt = { kind = "uniform", min = 16, max = 4000 }
output = { kind = "uniform", min = 8, max = 64 }
[workload.arrivals]
kind = "poisson"
rate_per_s = 8.0
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code, and the examples where they belong in it."""
    root = tmp_path_factory.mktemp("extended")
    for part in ("serving", "device_model"):
        # What trains, and what was trained, is not looked at here.
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__", "lab", "*.safetensors"))
        shutil.copytree(EXAMPLES / part, root / part, dirs_exist_ok=True)
    for line in tomllib.loads((EXAMPLES / "lines.toml").read_text(encoding="utf-8"))["line"]:
        path = root / line["file"]
        text = path.read_text(encoding="utf-8")
        assert text.count(line["was"]) == 1, line
        path.write_text(text.replace(line["was"], line["becomes"]), encoding="utf-8")
    return root


METRIC = """
from prometheus_client import CollectorRegistry
from serving.flight import Flight
from serving.telemetry.metrics.in_flight import InFlight
from serving.telemetry.metrics.service import ServiceMetrics
from serving.types import Request
registry = CollectorRegistry()
service = ServiceMetrics(registry, {}, InFlight(), lambda: 0.0)
for tokens in (8191, 8192, 20000):
    service.on_begin(Flight(None, Request(str(tokens), 0.0, tokens, 8), 0, ""))
print(registry.get_sample_value("foreserve_long_requests_total"))
"""


def foreserve(root: Path, *arguments: str) -> str:
    return python(root, "-m", "serving.cli", *arguments)


def python(root: Path, *arguments: str) -> str:
    command = [sys.executable, *arguments]
    environment = os.environ | {"PYTHONPATH": str(root)}
    told = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, timeout=170)
    assert told.returncode == 0, told.stderr
    return told.stdout


def step_ms(told: str) -> float:
    """Of what `foreserve explain` says."""
    (line,) = [line for line in told.splitlines() if line.startswith("Step: ")]
    return float(line.split()[1])


def test_hardware_is_a_file(extended: Path) -> None:
    larger = step_ms(foreserve(extended, "explain", "--hardware", "elmoe3d-12gb"))
    assert larger < step_ms(foreserve(extended, "explain", "--hardware", "elmoe3d-8gb"))


def test_a_system_and_its_draft_are_a_file_each(extended: Path) -> None:
    system = ["explain", "--system", "lpddr5x", "--batch", "8"]
    assert step_ms(foreserve(extended, *system)) < step_ms(foreserve(extended, "explain", "--batch", "8"))
    assert "5 drafts" in foreserve(extended, *system, "--draft", "shallow")


def test_hardware_names_the_system_that_it_brings(extended: Path) -> None:
    asked = ["explain", "--model", "olmoe-1b-7b", "--hardware", "h100-fused"]
    own, under_vllm = foreserve(extended, *asked), foreserve(extended, *asked, "--system", "gpu")
    assert "olmoe-1b-7b on fused (h100-fused)" in own and step_ms(own) < step_ms(under_vllm)
    listed = json.loads(foreserve(extended, "systems", "--json"))["hardware"]
    (entry,) = [entry for entry in listed if entry["hardware"] == "h100-fused"]
    assert entry["system"] == "fused" and "olmoe-1b-7b" in entry["models"]


@pytest.mark.slow
def test_policies_are_a_file_each_and_do_something(extended: Path, tmp_path: Path) -> None:
    study = tmp_path / "own.toml"
    study.write_text(STUDY, encoding="utf-8")
    told = json.loads(foreserve(extended, "study", str(study), "--json", "--out", str(tmp_path / "out")))
    points = {(point["batching"], point["mode"], point["load"]): point for point in told["points"]}
    assert len(points) == 8
    assert points["shortest-first", "tau", 1.0]["ttft_mean_s"] < points["fcfs", "tau", 1.0]["ttft_mean_s"]
    # At the full load drafting saves two fifths of the time, all the time.
    assert points["fcfs", "patient", 0.25]["sd_share"] < points["fcfs", "tau", 0.25]["sd_share"]


def test_a_command_is_a_file(extended: Path) -> None:
    assert "crossover" in foreserve(extended, "--help")
    assert foreserve(extended, "crossover", "elmoe3d-8gb", "elmoe3d-4gb").count("times as long") == 3


def test_a_kind_of_hardware_is_a_file_and_a_system_that_runs_on_it(extended: Path) -> None:
    asked = ["explain", "--model", "olmoe-1b-7b", "--hardware"]
    told = foreserve(extended, *asked, "wafer-44gb")
    assert "olmoe-1b-7b on wafer (wafer-44gb)" in told and "SRAM MB" in told
    assert step_ms(told) < step_ms(foreserve(extended, *asked, "2xh100"))
    listed = json.loads(foreserve(extended, "systems", "--json"))["hardware"]
    (entry,) = [entry for entry in listed if entry["hardware"] == "wafer-44gb"]
    assert (entry["kind"], entry["tiers"]) == ("wafer", ["sram", "host"])


def test_a_papers_figures_are_a_file_and_its_name(extended: Path) -> None:
    found = json.loads(foreserve(extended, "validate", "--system", "mixtral", "--json"))
    assert [figure["predicted"] for figure in found["figures"]] == pytest.approx([46.7, 12.9], abs=0.05)
    assert [(errors["role"], errors["figures"]) for errors in found["errors"]] == [("check", 2)]


def test_a_model_is_what_its_config_says(extended: Path) -> None:
    name = "qwen3-coder-30b-a3b"
    spec = foreserve(extended, "model", "add", str(EXAMPLES / f"configs/{name}/config.json"))
    (extended / f"device_model/specs/models/{name}.toml").write_text(spec, encoding="utf-8")
    long = ["explain", "--model", name, "--context", "200000"]
    assert f"{name} on elmoe3d" in foreserve(extended, *long)


@pytest.mark.slow
def test_a_format_of_traces_is_a_file_and_a_line(extended: Path, tmp_path: Path) -> None:
    rows = [
        {"started": f"2026-01-31T18:15:{second:02}", "prompt_tokens": 100, "completion_tokens": 10}
        for second in range(20)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    study = tmp_path / "logged.toml"
    trace = '[workload.arrivals]\nkind = "trace"\n[workload.trace]\nfile = "log.jsonl"\nformat = "gateway"\n'
    study.write_text('question = "sweep"\n[axes]\ndevices = [1]\n' + trace, encoding="utf-8")
    (point,) = json.loads(foreserve(extended, "study", str(study), "--json", "--out", str(tmp_path / "out")))["points"]
    assert (point["requests"], point["error"]) == (20, "")


@pytest.mark.slow
def test_a_metric_is_an_attribute_and_a_line(extended: Path) -> None:
    assert float(python(extended, "-c", METRIC)) == 2

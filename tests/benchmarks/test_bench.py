"""`foreserve bench` runs and says what it promises; what it measures is for people to judge, not for a test."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_benchmark_gives_its_figures() -> None:
    foreserve = str(Path(sys.executable).parent / "foreserve")
    result = subprocess.run([foreserve, "bench", "--quick", "--json"], capture_output=True, text=True, timeout=1780)
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    assert set(figures) >= {"pacing", "live", "news", "cpu_us", "probe", "stream"}
    assert [row["draft"] for row in figures["probe"]] == ["none", "eagle", "elastic"]
    assert {row["waiting"] for row in figures["decisions"]} == {10, 100, 1_000, 10_000}
    assert figures["virtual"]["steps_per_s_analytic"] > 0 and figures["virtual"]["requests_per_s"] > 0
    assert figures["study"]["speedup"] > 0
    assert 0 < figures["metrics"]["share_of_step"] < 1
    assert all(row["steps"] > 0 and row["step_ms"] > 0 for row in figures["pacing"])
    assert {(row["devices"], row["batch"]) for row in figures["pacing"]} >= {(1, 1), (1, 4), (1, 16), (4, 4)}
    assert [row["streams"] for row in figures["live"] if row["edge"] == "http"] == [16, 64, 64, 256, 1000, 1000]
    # The speed is worked out for steps of this length.
    assert all(0.8 < row["modelled_ms"] / row["step_ms"] < 1.2 for row in figures["live"])
    assert [(row["edges"], row["busy_core"]) for row in figures["news"]] == list(product((1, 2), (False, True)))
    for row in figures["news"]:
        assert 0 <= row["slips"] <= row["arrivals"] > row["users"]
        assert all(0 < row[f"{way}_p50_ms"] <= row[f"{way}_p99_ms"] for way in ("board", "scheduler"))
    assert all(cost > 0 for cost in figures["cpu_us"].values())
    assert all(figures["stream"][name] > 0 for name in ("http_tokens_per_s", "grpc_tokens_per_s", "ready_s"))


@pytest.mark.slow
def test_one_part_alone_is_measured_and_parts_are_named_alike() -> None:
    foreserve = str(Path(sys.executable).parent / "foreserve")
    result = subprocess.run(
        [foreserve, "bench", "--only", "probe", "--json"], capture_output=True, text=True, timeout=60
    )
    assert set(json.loads(result.stdout)) == {"probe"}
    from serving.bench.command import PARTS

    told = subprocess.run([foreserve, "bench", "--only", "all"], capture_output=True, text=True, timeout=60).stderr
    assert all(f"'{name}'" in told for name in PARTS)

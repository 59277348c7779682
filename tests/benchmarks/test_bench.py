"""`foreserve bench` runs and says what it promises; what it measures is for people to judge, not for a test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_benchmark_gives_its_figures() -> None:
    foreserve = str(Path(sys.executable).parent / "foreserve")
    result = subprocess.run([foreserve, "bench", "--quick", "--json"], capture_output=True, text=True, timeout=880)
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    assert set(figures) >= {"ready_s", "pacing", "itl", "probe", "stream"}
    assert [row["draft"] for row in figures["probe"]] == ["none", "eagle", "elastic"]
    assert {row["waiting"] for row in figures["decisions"]} == {10, 100, 1_000, 10_000}
    assert figures["virtual"]["steps_per_s_analytic"] > 0 and figures["virtual"]["requests_per_s"] > 0
    assert figures["study"]["speedup"] > 0
    assert 0 < figures["metrics"]["share_of_step"] < 1
    assert all(row["steps"] > 0 and row["step_ms"] > 0 for row in figures["pacing"])
    assert {(row["devices"], row["batch"]) for row in figures["pacing"]} >= {(1, 1), (1, 4), (1, 16), (4, 4)}
    assert [row["streams"] for row in figures["itl"]] == [16, 64, 256, 256]
    assert all(figures["stream"][name] > 0 for name in ("http_tokens_per_s", "grpc_tokens_per_s"))

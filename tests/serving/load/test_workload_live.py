"""A workload file on a real server: users in a closed loop whose sessions share what was said before."""

import json
import subprocess
import sys

import httpx
import pytest

from serving.process.server_process import ServerProcess
from serving.workload import Source, load_workload
from tests.serving.workload.files import served

WORKLOAD = """
requests = 24
[arrivals]
kind = "closed"
users = 3
think_s = { kind = "exponential", mean = 0.2 }
[sessions]
turns = { kind = "uniform", min = 2, max = 4 }
think_s = 0.1
max_tokens = 600
[system]
tokens = 64
[prompt]
kind = "uniform"
min = 16
max = 48
[output]
kind = "constant"
value = 8
[topics]
cs = 1
math = 1
[slo]
batch = 1
"""


def hits(emulator: ServerProcess) -> float:
    lines = httpx.get(f"{emulator.http_url}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:prefix_cache_hits_total"))


@pytest.mark.slow
def test_users_in_sessions(emulator, tmp_path):
    (tmp_path / "w.toml").write_text(WORKLOAD)
    before = hits(emulator)
    argv = ("load", "--workload", str(tmp_path / "w.toml"), "--json", "--url")
    for url, endpoint in ((emulator.http_url, "completions"), (emulator.grpc_url, "chat")):
        options = (url, "--endpoint", endpoint)
        run = subprocess.run(
            [sys.executable, "-m", "serving.cli", *argv, *options], capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, run.stderr
        report = json.loads(run.stdout)
        assert not report["errors"] and report["clock"] == "emulated"
        assert 0.3 < report["emulator"]["cached_share"] < 1
        assert (report["completed"], report["output_tokens"]) == (24, 24 * 8)
        assert set(report["slo_classes"]) == {"batch"}
        asked = sum(ask.prompt_tokens for ask, _ in served(Source(load_workload(tmp_path / "w.toml"))))
        # A chat template adds what separates its messages.
        assert report["prompt_tokens"] == asked if endpoint == "completions" else report["prompt_tokens"] > asked
    # At least the system prompt's four blocks, in all but the first requests of each run.
    assert hits(emulator) - before > 2 * 12 * 64

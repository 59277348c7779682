"""Agents on a real server: calls that its model makes, over HTTP and gRPC, with prompts that it has in its cache."""

import json
import subprocess
import sys

import pytest

from serving.process.server_process import ServerProcess
from serving.workload import Source, load_workload
from tests.serving.load.test_workload_live import hits
from tests.serving.workload.files import served

WORKLOAD = """
requests = 12
prompt = { kind = "uniform", min = 16, max = 32 }
output = 8
[arrivals]
kind = "closed"
users = 2
[agents]
calls = 2
result = 16
tool_s = 0.2
tools = 2
"""


@pytest.mark.parametrize("protocol", ["http", pytest.param("grpc", marks=pytest.mark.slow)])
def test_agents_call_tools_and_go_on(emulator: ServerProcess, protocol: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "w.toml").write_text(WORKLOAD)
    before = hits(emulator)
    url = emulator.http_url if protocol == "http" else emulator.grpc_url
    argv = ("load", "--workload", str(tmp_path / "w.toml"), "--json", "--endpoint", "chat", "--url", url)
    run = subprocess.run([sys.executable, "-m", "serving.cli", *argv], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert not report["errors"] and report["completed"] == 12
    assert report["tool_calls"] == {"asked": 8, "made": 8}
    # Twelve prompts that begin with two tools, 251 tokens: most of them are in the devices' caches.
    assert hits(emulator) - before > 6 * 251
    asked = sum(ask.prompt_tokens for ask, _ in served(Source(load_workload(tmp_path / "w.toml"))))
    # Calls are as long as the model makes them.
    assert report["prompt_tokens"] == pytest.approx(asked, rel=0.3)

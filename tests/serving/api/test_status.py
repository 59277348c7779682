"""Does a running emulation show itself: status, `foreserve top`, the page, metrics and DCGM?"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import msgspec
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.notebook import state
from serving.process.server_process import ServerProcess
from serving.telemetry.status import Status
from serving.telemetry.status_history import EVERY_S, StatusHistory

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="module")
def asked(emulator: ServerProcess) -> ServerProcess:
    """A server that has answered a few."""
    client = openai.OpenAI(base_url=f"{emulator.http_url}/v1", api_key="none", max_retries=0)
    for _ in range(3):
        client.completions.create(
            model="qwen3-30b-a3b", prompt="Hello", max_tokens=20, extra_body={"slo": "standard", "ignore_eos": True}
        )
    return emulator


def get(emulator: ServerProcess, path: str) -> httpx.Response:
    return httpx.get(f"{emulator.http_url}{path}", timeout=60)


def test_the_status_counts_what_clients_had(asked: ServerProcess) -> None:
    status = msgspec.json.decode(get(asked, "/foreserve/v1/status").content, type=Status)
    assert len(status.devices) == 2
    assert sum(device.tokens for device in status.devices) >= 60
    assert {slo.name: slo for slo in status.slos}["standard"].met >= 3
    assert status.about["model"] == "qwen3-30b-a3b"


def test_the_history_holds_what_clients_had_before_it_was_asked_for(asked: ServerProcess) -> None:
    deadline_s = time.monotonic() + 4 * EVERY_S
    while time.monotonic() < deadline_s:
        history = msgspec.json.decode(get(asked, "/foreserve/v1/history").content, type=StatusHistory)
        if history.points and sum(device.tokens for device in history.points[-1].devices) >= 60:
            break
        time.sleep(0.5)
    assert history.first == 0 and len(history.points) > 1
    assert sum(device.tokens for device in history.points[-1].devices) >= 60
    after = get(asked, f"/foreserve/v1/history?after={len(history.points) - 1}")
    assert msgspec.json.decode(after.content, type=StatusHistory).first == len(history.points) - 1
    assert get(asked, "/foreserve/v1/history?after=-1").status_code in (400, 422)


@pytest.mark.parametrize("suffix", ["", "/v1"])
def test_a_notebook_reads_it(asked: ServerProcess, suffix: str) -> None:
    now = state(f"{asked.http_url.removeprefix('http://')}{suffix}")
    assert now.status.about["model"] == "qwen3-30b-a3b"
    assert now.columns["hardware"] == ["elmoe3d-8gb"] * 2 and sum(now.columns["tokens"]) >= 60
    assert [row.index for row in now.rows] == now.columns["index"] == [0, 1]
    assert now.status.host.over_s > 0


def test_top_prints_it(asked: ServerProcess) -> None:
    address = asked.http_url.removeprefix("http://")
    command = [str(Path(sys.executable).parent / "foreserve"), "top", address, "--once", "--interval", "0.1"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "qwen3-30b-a3b on elmoe3d-8gb" in told.stdout
    assert "standard" in told.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_the_page_shows_it_without_anything_from_elsewhere(asked: ServerProcess, tmp_path: Path) -> None:
    flags = [*QUIET, f"--user-data-dir={tmp_path}", "--virtual-time-budget=4000", "--dump-dom"]
    page = subprocess.run([str(CHROMIUM), *flags, f"{asked.http_url}/ui"], capture_output=True, text=True, timeout=120)
    assert "qwen3-30b-a3b on 2 x elmoe3d-8gb" in page.stdout
    assert page.stdout.count("<polyline") >= 4
    assert "0 elmoe3d-8gb" in page.stdout and "standard" in page.stdout
    # Nothing but its own status is asked for.
    assert "http" not in page.stdout.replace("http://www.w3.org", "")


def test_metrics_can_be_asked_for_by_name_and_by_head(asked: ServerProcess) -> None:
    one = get(asked, "/metrics?name[]=foreserve_power_watts").text
    assert {family.name for family in text_string_to_metric_families(one)} == {"foreserve_power_watts"}
    assert httpx.head(f"{asked.http_url}/metrics", timeout=60).status_code == 200


def test_dcgm_tells_of_power_and_of_an_energy_that_grows(asked: ServerProcess) -> None:
    def read() -> dict[tuple[str, str], float]:
        families = text_string_to_metric_families(get(asked, "/dcgm/metrics").text)
        return {(sample.name, sample.labels["gpu"]): sample.value for family in families for sample in family.samples}

    before = read()
    openai.OpenAI(base_url=f"{asked.http_url}/v1", api_key="none").completions.create(
        model="qwen3-30b-a3b", prompt="Hello", max_tokens=20
    )
    after, energy, power = read(), "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE"
    assert all(after[energy, gpu] > before[energy, gpu] > 0 for gpu in ("0", "1"))
    assert all(0 < after[power, gpu] < 1000 for gpu in ("0", "1"))

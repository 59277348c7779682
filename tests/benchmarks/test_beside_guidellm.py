"""How well streams keep their pace beside GuideLLM's mock server, and what a token costs: same client, same machine.

What they emulate differs: the mock server waits as long as it is told, for each stream alone, and sends words; it has
no devices, batches, text of a model or metrics. So it says what serving streams from Python costs at least.
"""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
import pytest

from serving.bench.command import INSTANT, STREAM_TOKENS
from serving.bench.cpu_times import CLIENT, EDGE, cpu_times, seconds
from serving.bench.live import MICRO, SETTLED_S, Streams
from serving.bench.servers import Servers, load, stand_still
from serving.process.server_process import ServerProcess
from tests.benchmarks.installed import installed

pytestmark = pytest.mark.alone

GUIDELLM = "guidellm==0.8.1"
PACED = (Streams(64, 4, 20.0, "recorded"), Streams(256, 4, 20.0, "recorded"))
OUTPUT_LEN, MOST = 300, 64
TTFT_MS, START_S = 50, 60.0

Spent = Callable[[], tuple[float, float]]
"""Returns the seconds of processor time so far, of the server's edge and of the client."""


class Seen(NamedTuple):
    """Milliseconds between tokens, how far that is from what was asked, tokens a second while all streams go on, and
    microseconds of processor time for each, of the edge and of the client."""

    itl_ms: float
    error_percent: float
    tokens_per_s: float
    edge_us: float
    client_us: float


@pytest.fixture(scope="module")
def guidellm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(GUIDELLM, tmp_path_factory.mktemp("guidellm")) / "guidellm"


@contextmanager
def mock(program: Path, itl_ms: float, tokens: int) -> Iterator[tuple[str, Spent]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {"host": "127.0.0.1", "port": port, "ttft-ms": TTFT_MS, "itl-ms": itl_ms, "output-tokens": tokens}
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([program, "mock-server", *words], **quiet) as server:  # type: ignore[call-overload]
        url, end_s = f"http://127.0.0.1:{port}", time.monotonic() + START_S
        try:
            while not answers(url):
                assert time.monotonic() < end_s, "the mock server has not come up"
                time.sleep(0.1)
            parts = [process := psutil.Process(server.pid), *process.children(recursive=True)]
            yield url, lambda: (sum(map(seconds, parts)), seconds(psutil.Process()))
        finally:
            for part in psutil.Process(server.pid).children(recursive=True):
                part.terminate()
            server.terminate()


def answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/v1/models").status_code == HTTPStatus.OK
    return False


def measured(url: str, streams: int, tokens: int, spent: Spent, itl_ms: float, speed: float = 1.0) -> Seen:
    """Load a server; without emulated devices its tokens are to come every `itl_ms`."""
    metrics = f"{url}/metrics" if speed != 1.0 else None
    load(url, streams, tokens // 10, metrics)
    if speed == INSTANT:
        # Else its device has done with an answer before the next request has come.
        stand_still(url, 1, SETTLED_S * INSTANT, 0.0)
    before = spent()
    report = load(url, streams, tokens, metrics)
    edge_s, client_s = (after - first for after, first in zip(spent(), before, strict=True))
    summary, seen_s = report.summary, report.summary.tpot_s.mean
    modelled_s = report.fidelity.tpot_mean_s if report.fidelity else itl_ms / 1e3
    assert seen_s is not None and modelled_s is not None
    return Seen(
        itl_ms=seen_s / speed * 1e3,
        error_percent=100 * (seen_s / modelled_s - 1) if itl_ms else float("nan"),
        tokens_per_s=streams * speed / seen_s,
        edge_us=MICRO * edge_s / summary.output_tokens,
        client_us=MICRO * client_s / summary.output_tokens,
    )


def of_ours(child: ServerProcess, streams: int, tokens: int, itl_ms: float, speed: float) -> Seen:
    def spent() -> tuple[float, float]:
        times = cpu_times(child)
        return times[EDGE], times[CLIENT]

    return measured(child.http_url, streams, tokens, spent, itl_ms, speed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_streams_beside_the_mock_server_of_guidellm(guidellm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers, found = Servers("foreserve-moe"), list[tuple[str, int, float, Seen]]()
    for streams in PACED:
        speed, count, step_ms = streams.speed(OUTPUT_LEN), streams.streams, streams.step_ms
        with servers.running(streams.devices, speed, "--text", streams.text) as child:
            found.append(("foreserve", count, step_ms, of_ours(child, count, OUTPUT_LEN, step_ms, speed)))
        with mock(guidellm, step_ms, OUTPUT_LEN) as (url, spent):
            found.append((GUIDELLM, count, step_ms, measured(url, count, OUTPUT_LEN, spent, step_ms)))
    with servers.running(1, INSTANT, "--text", "recorded") as child:
        found.append(("foreserve", MOST, 0.0, of_ours(child, MOST, STREAM_TOKENS, 0.0, INSTANT)))
    with mock(guidellm, 0.0, STREAM_TOKENS) as (url, spent):
        found.append((GUIDELLM, MOST, 0.0, measured(url, MOST, STREAM_TOKENS, spent, 0.0)))
    with capsys.disabled():
        for name, count, step_ms, seen in found:
            print(f"\n{name}, {count} streams, {step_ms:g} ms: {seen._asdict()}", end="")
    assert all(seen.tokens_per_s > 0 and seen.edge_us > 0 for *_, seen in found)

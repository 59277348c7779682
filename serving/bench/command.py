"""`foreserve bench`: how soon a server is ready, how well devices keep time, what clients see, what an edge can stream.

Each figure comes from a server of its own, under a load like a user's, on this machine: clients and server share it.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvloop
from rich.console import Console

from serving.bench.device_model import probes
from serving.bench.metrics import metrics_cost
from serving.bench.scheduler import decisions
from serving.bench.study import sweep_pace
from serving.bench.virtual_time import day_pace, virtual_pace
from serving.load.options import LoadOptions
from serving.load.report import Report
from serving.load.run import run_load
from serving.presentation.table import Table
from serving.process.process_priority import settle
from serving.process.server_process import Child, server
from serving.telemetry.step_log import read_step_log
from serving.types import StepRecord

HARDWARE = "elmoe3d-8gb"
# Devices, sequences in each one's batch, and the speed that brings a step of that batch to some 5 to 30 ms.
PACING = [(1, 1, 1.0), (1, 4, 1.0), (1, 16, 3.0), (4, 1, 1.0), (4, 4, 1.0)]
# Streams over the devices, and the speed that makes a step of their batch 20 ms; 256 of them once more at 80 ms, as
# 12,800 tokens a second are more than vLLM makes on two cores.
ITL = [(16, 4, 1.1), (64, 4, 3.0), (256, 4, 12.0), (256, 4, 3.0)]
STREAMS, STREAM_TOKENS = 64, 600
INSTANT = 1e6
DAY_REQUESTS = 100_000


class Servers:
    """Servers of ELMoE-3D with a token model."""

    def __init__(self, token_model: str) -> None:
        self._token_model = token_model

    @contextmanager
    def recorded(self, devices: int, speed: float) -> Iterator[tuple[Child, list[StepRecord]]]:
        """A server of so many devices, and what its steps will have been once it has ended."""
        records: list[StepRecord] = []
        with tempfile.TemporaryDirectory(prefix="foreserve-") as folder:
            log = Path(folder) / "steps.jsonl"
            with self.running(devices, speed, "--step-log", str(log)) as child:
                yield child, records
            records += read_step_log(log)

    @contextmanager
    def running(self, devices: int, speed: float, *options: str) -> Iterator[Child]:
        """A server of so many devices."""
        scenario = ("--hardware", HARDWARE, "--mode", "fixed-ar", "--devices", str(devices), "--speed", str(speed))
        with server(*scenario, "--token-model", self._token_model, *options, quiet=True) as child:
            yield child


def bench(quick: bool, token_model: str) -> dict[str, Any]:
    """All figures; `quick` takes runs of a third of the length."""
    settle()
    servers = Servers(token_model)
    output_len = 100 if quick else 300
    say("The device model's answers ...")
    results: dict[str, Any] = {"pacing": [], "itl": [], "probe": probes(HARDWARE, "qwen3-30b-a3b")}
    say("The scheduler's decisions ...")
    results["decisions"] = decisions()
    say("What metrics cost ...")
    results["metrics"] = metrics_cost()
    say("Virtual time ...")
    results["virtual"] = virtual_pace()
    if not quick:
        results["virtual"]["day"] = day_pace(DAY_REQUESTS)
    say("Studies ...")
    results["study"] = sweep_pace(requests=300 if quick else 2000)
    for devices, batch, speed in PACING:
        say(f"Pacing: {devices} x batch {batch} at speed {speed:g} ...")
        results["pacing"].append(pacing(servers, (devices, batch), speed, output_len, results))
    for streams, devices, speed in ITL:
        say(f"Inter-token latency: {streams} streams on {devices} devices ...")
        results["itl"].append(client_itl(servers, (streams, devices), speed, output_len))
    say(f"Streaming: {STREAMS} streams of an instant device, over HTTP and gRPC ...")
    results["stream"] = streaming(servers)
    return results


def pacing(
    servers: Servers, size: tuple[int, int], speed: float, output_len: int, results: dict[str, Any]
) -> dict[str, Any]:
    """Lateness of decode steps, in real milliseconds; `size`: devices, and sequences on each of them."""
    devices, batch = size
    with servers.recorded(devices, speed) as (child, records):
        results.setdefault("ready_s", round(child.ready_s, 1))
        load(child.http_url, devices * batch, output_len)
    steps = [record for record in records if record.phase == "decode" and record.batch == batch]
    late_ms = np.array([step.late_real_s for step in steps]) * 1e3
    return {
        "devices": devices,
        "batch": batch,
        "step_ms": round(float(np.mean([step.latency_s for step in steps])) / speed * 1e3, 2),
        "steps": len(steps),
        "p50_ms": round(float(np.percentile(late_ms, 50)), 3),
        "p99_ms": round(float(np.percentile(late_ms, 99)), 3),
        "underruns": sum(step.underruns for step in steps),
    }


def client_itl(servers: Servers, size: tuple[int, int], speed: float, output_len: int) -> dict[str, Any]:
    """Mean time between tokens as clients see it, beside that of the modelled steps, in real milliseconds; `size`:
    streams, and devices that share them."""
    streams, devices = size
    with servers.recorded(devices, speed) as (child, records):
        report = load(child.http_url, streams, output_len)
    steps = [record for record in records if record.phase != "prefill"]
    modelled_s = float(np.average([step.latency_s for step in steps], weights=[step.batch for step in steps]))
    seen_s = report.summary.itl_s.mean or 0.0
    return {
        "streams": streams,
        "devices": devices,
        "modelled_ms": round(modelled_s / speed * 1e3, 3),
        "seen_ms": round(seen_s / speed * 1e3, 3),
        "error_percent": round((seen_s / modelled_s - 1) * 100, 2),
        "underrun_percent": round(100 * sum(step.underruns for step in records) / report.summary.output_tokens, 2),
        "tokens_per_s": round(report.summary.output_tokens_per_s * speed),
    }


def streaming(servers: Servers) -> dict[str, int]:
    """Tokens per real second through each edge, of a device that is never waited for."""
    with servers.running(1, INSTANT) as child:
        load(child.http_url, STREAMS, 16)
        http = load(child.http_url, STREAMS, STREAM_TOKENS)
        grpc = load(child.grpc_url, STREAMS, STREAM_TOKENS, metrics_url=f"{child.http_url}/metrics")
    return {
        "http_tokens_per_s": round(http.summary.output_tokens_per_s * INSTANT),
        "grpc_tokens_per_s": round(grpc.summary.output_tokens_per_s * INSTANT),
    }


def load(url: str, streams: int, output_len: int, metrics_url: str | None = None) -> Report:
    """So many requests, all at once."""
    options = LoadOptions(
        url=url,
        rate_per_s=float("inf"),
        num_requests=streams,
        input_len=8,
        output_len=output_len,
        metrics_url=metrics_url,
    )
    report: Report = uvloop.run(run_load(options))
    if report.summary.completed != streams:
        raise RuntimeError(f"{report.summary.failed} of {streams} requests failed: {report.summary.errors}")
    return report


def say(line: str) -> None:
    """Progress, beside the results."""
    print(line, file=sys.stderr, flush=True)


def print_table(results: dict[str, Any]) -> None:
    """The results for people."""
    console = Console()
    console.print(f"Ready in {results['ready_s']} s")
    for name in ("pacing", "itl", "probe", "decisions"):
        rows = [[str(value) for value in row.values()] for row in results[name]]
        console.print(Table(list(results[name][0]), rows, name))
    for name, value in (results["metrics"] | results["virtual"] | results["study"] | results["stream"]).items():
        console.print(f"{name}: {value:,}" if isinstance(value, int | float) else f"{name}: {value}")

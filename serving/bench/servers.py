"""Servers to measure, and a client that loads them: both on this machine."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from serving.load.options import LoadOptions
from serving.load.report import Report
from serving.load.run import run_load
from serving.process.server_process import Child, server
from serving.telemetry.step_log import read_step_log
from serving.types import StepRecord

HARDWARE, MODEL = "elmoe3d-8gb", "qwen3-30b-a3b"
INPUT_TOKENS = 8


class Servers:
    """Servers of ELMoE-3D that decode plainly, with one token model."""

    def __init__(self, token_model: str) -> None:
        self._token_model = token_model

    @contextmanager
    def recorded(self, devices: int, speed: float, *options: str) -> Iterator[tuple[Child, list[StepRecord]]]:
        """Run a server of `devices` devices, with more `options`; yield it, and a list for its steps.

        The list is empty until the context has ended.
        """
        records: list[StepRecord] = []
        with tempfile.TemporaryDirectory(prefix="foreserve-") as folder:
            log = Path(folder) / "steps.jsonl"
            with self.running(devices, speed, "--step-log", str(log), *options) as child:
                yield child, records
            records += read_step_log(log)

    @contextmanager
    def running(self, devices: int, speed: float, *options: str) -> Iterator[Child]:
        """Run a server of `devices` devices, with more `options`, and yield it."""
        scenario = ("--hardware", HARDWARE, "--mode", "fixed-ar", "--devices", str(devices), "--speed", str(speed))
        with server(*scenario, "--token-model", self._token_model, *options, quiet=True) as child:
            yield child


def load(url: str, streams: int, output_len: int, metrics_url: str | None = None, **fields: Any) -> Report:
    """Send `streams` requests at once, with `fields` in their bodies. Raise RuntimeError unless all complete."""
    options = LoadOptions(
        url=url,
        rate_per_s=float("inf"),
        num_requests=streams,
        input_len=INPUT_TOKENS,
        output_len=output_len,
        metrics_url=metrics_url,
        extra_body=fields,
    )
    report: Report = uvloop.run(run_load(options))
    if report.summary.completed != streams:
        raise RuntimeError(f"{report.summary.failed} of {streams} requests failed: {report.summary.errors}")
    return report

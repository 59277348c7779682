"""A server that is watched in every way: its traces, its log, its requests and its steps. Several tests share it."""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import openai
import pytest

from serving.process.server_process import ServerProcess, server
from tests.patience import PATIENCE_S
from tests.serving.telemetry.tracing.collector import Collector, over_http

MODEL, SPEED = "qwen3-30b-a3b", 0.8
PARENT = "b7ad6b7169203331"
OPTIONS = (
    *("--devices", "2", "--shared-ext", "2", "--mode", "fixed-ar", "--max-model-len", "1024"),
    *("--speed", str(SPEED), "--batching", "topic-aware", "--log-format", "json", "--log-requests"),
)


class Observed(NamedTuple):
    """A server, what collects its traces, and where it logs."""

    child: ServerProcess
    collector: Collector
    printed: Path
    log: Path
    steps: Path

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def line(self, **fields: Any) -> dict[str, Any]:
        """The first line with these fields, once it is there."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for line in self.lines():
                if all(line.get(name) == value for name, value in fields.items()):
                    return line
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        text = httpx.get(f"{self.child.http_url}/metrics", timeout=60).text
        return sum(map(float, re.findall(rf"^{re.escape(name)}{{.*}} (\S+)$", text, re.MULTILINE)))

    def under_way(self) -> float:
        """How many requests run or wait."""
        return self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")

    def client(self, trace_id: str, **headers: str) -> openai.OpenAI:
        said = {"traceparent": f"00-{trace_id}-{PARENT}-01", **headers}
        return openai.OpenAI(base_url=f"{self.child.http_url}/v1", api_key="none", max_retries=0, default_headers=said)


@contextlib.contextmanager
def stdout_into(path: Path) -> Iterator[None]:
    """What processes print that begin meanwhile goes to a file."""
    with path.open("wb") as file:
        own = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(own, 1)
            os.close(own)


@contextlib.contextmanager
def observed_server(folder: Path) -> Iterator[Observed]:
    """Two devices on one LPDDR tier."""
    printed, log, steps = folder / "printed", folder / "log", folder / "steps.jsonl"
    with over_http() as collector, contextlib.ExitStack() as stack:
        options = (*OPTIONS, "--otlp-traces-endpoint", collector.url, "--step-log", str(steps))
        # What the server inherits is not for the tests that run meanwhile.
        with pytest.MonkeyPatch.context() as environment, stdout_into(printed):
            environment.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
            environment.setenv("OTEL_SERVICE_NAME", "under-test")
            environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
            child = stack.enter_context(server(*options, log=log))
        yield Observed(child, collector, printed, log, steps)

"""Benchmarks of live streams: how well clients see the modelled pace, and the processor time of each token."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from device_model.load import load_device
from device_model.step import StepPlan
from serving.bench.cpu_times import cpu_times
from serving.bench.servers import HARDWARE, INPUT_TOKENS, MODEL, Servers, load
from serving.types import StepRecord

MICRO = 1e6


class Streams(NamedTuple):
    """Streams spread over devices whose steps take `step_ms` real milliseconds; `text` is the server's `--text`."""

    streams: int
    devices: int
    step_ms: float
    text: str = "auto"

    def speed(self, output_len: int) -> float:
        """Return the speed at which modelled steps take `step_ms` on average over `output_len` tokens."""
        batch = self.streams // self.devices
        device = load_device("elmoe3d", HARDWARE, MODEL)
        plan = StepPlan.of(*[(1, INPUT_TOKENS)] * batch)
        modelled_s = device.probe(plan, output_len).latency_s.mean()
        return float(modelled_s / (self.step_ms / 1e3))


# On two cores the text is scarce first, which is why some streams have it recorded, and then the edge.
LIVE = (
    Streams(16, 4, 20.0, "vllm"),
    Streams(64, 4, 20.0, "vllm"),
    Streams(64, 4, 20.0),
    Streams(256, 4, 20.0),
)
COSTLY = Streams(64, 4, 20.0, "vllm")


def live(servers: Servers, output_len: int) -> Iterator[dict[str, Any]]:
    """Yield, for each of `LIVE` over HTTP, the mean time between tokens as clients see it, and as modelled."""
    for streams in LIVE:
        speed = streams.speed(output_len)
        with servers.recorded(streams.devices, speed, "--text", streams.text) as (child, records):
            report = load(child.http_url, streams.streams, output_len)
        modelled_s = _modelled_s(records)
        seen_s = report.summary.itl_s.mean or 0.0
        late = sum(step.underruns for step in records) / report.summary.output_tokens
        yield {
            "streams": streams.streams,
            "devices": streams.devices,
            "step_ms": streams.step_ms,
            "text": streams.text,
            "edge": "http",
            "modelled_ms": round(modelled_s / speed * 1e3, 3),
            "seen_ms": round(seen_s / speed * 1e3, 3),
            "error_percent": round((seen_s / modelled_s - 1) * 100, 2),
            "late_percent": round(100 * late, 2),
            "tokens_per_s": round(report.summary.output_tokens_per_s * speed),
        }


def cpu_us(servers: Servers, output_len: int) -> dict[str, float]:
    """Return the processor microseconds of a token by kind of process, and of a step for the device."""
    found: dict[str, float] = {}
    with servers.running(COSTLY.devices, COSTLY.speed(output_len), "--text", COSTLY.text) as child:
        # A process's first tokens take longer.
        load(child.http_url, COSTLY.streams, output_len // 4)
        metrics = f"{child.http_url}/metrics"
        cases: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("http", child.http_url, {}),
            ("grpc", child.grpc_url, {}),
            ("http_top_p", child.http_url, {"top_p": 0.9}),
        )
        for name, url, fields in cases:
            before = cpu_times(child)
            tokens = load(url, COSTLY.streams, output_len, metrics, **fields).summary.output_tokens
            taken = {kind: seconds - before[kind] for kind, seconds in cpu_times(child).items()}
            each = {kind: round(MICRO * seconds / tokens, 1) for kind, seconds in taken.items()}
            if name == "http_top_p":
                found["source_token_top_p"] = each["source"]
                continue
            found[f"edge_token_{name}"], found[f"client_token_{name}"] = each["edge"], each["client"]
            if name == "http":
                steps = tokens / (COSTLY.streams / COSTLY.devices)
                found["source_token_vllm"] = each["source"]
                found["device_step"] = round(MICRO * (taken["device"] + taken["scheduler"]) / steps, 1)
    return found


def _modelled_s(records: list[StepRecord]) -> float:
    steps = [record for record in records if record.phase != "prefill"]
    return float(np.average([step.latency_s for step in steps], weights=[step.batch for step in steps]))

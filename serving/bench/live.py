"""Benchmarks of live streams: how well clients see the modelled pace, and the processor time of each token."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from device_model.load import load_device
from device_model.step import StepPlan
from serving.bench.cpu_times import cpu_times
from serving.bench.servers import (
    HARDWARE,
    INPUT_TOKENS,
    MODEL,
    Servers,
    front_end_options,
    front_end_url,
    has_rust_front_end,
    load,
)
from serving.process.server_process import ServerProcess
from serving.scenario.scenario import RUST_FRONT_END
from serving.types import StepRecord

MICRO = 1e6


class Streams(NamedTuple):
    """Streams spread over devices whose steps take `step_ms` real milliseconds; `text` is the server's `--text`."""

    streams: int
    devices: int
    step_ms: float
    text: str = "auto"
    edge: str = "http"

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
    Streams(1000, 16, 50.0, "recorded"),
    Streams(1000, 16, 25.0, "recorded"),
)
# vLLM's front end in Rust, where it is.
RUST = (
    Streams(64, 4, 20.0, "recorded", RUST_FRONT_END),
    Streams(256, 4, 20.0, "recorded", RUST_FRONT_END),
    Streams(1000, 16, 25.0, "recorded", RUST_FRONT_END),
)
COSTLY = Streams(64, 4, 20.0, "vllm")
SEVERAL_SOURCES = ("--token-sources", "2")
EDGES = (2, 4)


def live(servers: Servers, output_len: int) -> Iterator[dict[str, Any]]:
    """Yield, for each of `LIVE` over HTTP, the mean time between tokens as clients see it, and as modelled."""
    for streams in LIVE + (RUST if has_rust_front_end() else ()):
        speed = streams.speed(output_len)
        options = front_end_options() if streams.edge == RUST_FRONT_END else ()
        with servers.recorded(streams.devices, speed, "--text", streams.text, *options) as (child, records):
            url = front_end_url(options) if options else child.http_url
            report = load(url, streams.streams, output_len, f"{child.http_url}/metrics")
        modelled_s = _modelled_s(records)
        seen_s = report.summary.itl_s.mean or 0.0
        late = sum(step.underruns for step in records) / report.summary.output_tokens
        yield {
            "streams": streams.streams,
            "devices": streams.devices,
            "step_ms": streams.step_ms,
            "text": streams.text,
            "edge": streams.edge,
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
        http, grpc, top_p = (
            _each(child, url, output_len, **fields)
            for url, fields in ((child.http_url, {}), (child.grpc_url, {}), (child.http_url, {"top_p": 0.9}))
        )
    batch = COSTLY.streams / COSTLY.devices
    found["source_token_vllm"], found["source_token_top_p"] = http["source"], top_p["source"]
    for name, each in (("http", http), ("grpc", grpc)):
        found[f"edge_token_{name}"], found[f"client_token_{name}"] = each["edge"], each["client"]
    found["client_token"] = http["client"]
    found["device_step"] = round(batch * (http["device"] + http["scheduler"]), 1)
    with servers.running(COSTLY.devices, COSTLY.speed(output_len), "--text", "vllm", *SEVERAL_SOURCES) as child:
        found["source_token_2_sources"] = _each(child, child.http_url, output_len)["source"]
    with servers.running(COSTLY.devices, COSTLY.speed(output_len), "--text", "recorded") as child:
        recorded = _each(child, child.http_url, output_len)
        found["source_token_recorded"], found["edge_token_recorded"] = recorded["source"], recorded["edge"]
    for edges in EDGES:
        several = ("--text", "recorded", "--edges", str(edges))
        with servers.running(COSTLY.devices, COSTLY.speed(output_len), *several) as child:
            apart = _each(child, child.http_url, output_len)
            found[f"edge_token_{edges}_edges"], found["core_token"] = apart["own_edge"], apart["edge"]
    if has_rust_front_end():
        options = front_end_options()
        with servers.running(COSTLY.devices, COSTLY.speed(output_len), "--text", "recorded", *options) as child:
            rust = _each(child, front_end_url(options), output_len)
            found["edge_token_vllm_rs"], found["front_end_token_vllm_rs"] = rust["edge"], rust["front_end"]
    return found


def _each(child: ServerProcess, url: str, output_len: int, **fields: Any) -> dict[str, float]:
    """Return the microseconds that a token costs each kind of process, what they cost while idle included."""
    metrics = f"{child.http_url}/metrics"
    # The first of a process take longer.
    load(url, COSTLY.streams, output_len // 4, metrics, **fields)
    before = cpu_times(child)
    tokens = load(url, COSTLY.streams, output_len, metrics, **fields).summary.output_tokens
    return {kind: round(MICRO * (spent - before[kind]) / tokens, 1) for kind, spent in cpu_times(child).items()}


def _modelled_s(records: list[StepRecord]) -> float:
    steps = [record for record in records if record.phase != "prefill"]
    return float(np.average([step.latency_s for step in steps], weights=[step.batch for step in steps]))

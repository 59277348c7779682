"""`foreserve bench`: a server's time to be ready, its devices' pace, its clients' view of it, and its edge's streams.

Each figure comes from a server of its own, under a load like a user's, on this machine: clients and server share it.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.console import Console

from serving.bench.device_model import probes
from serving.bench.live import SETTLED_S, cpu_us, live
from serving.bench.news import news
from serving.bench.scheduler import decisions
from serving.bench.servers import (
    HARDWARE,
    MODEL,
    Servers,
    front_end_options,
    front_end_url,
    has_rust_front_end,
    load,
    stand_still,
)
from serving.bench.study import POINTS, sweep_pace
from serving.bench.virtual_time import day_pace, virtual_pace
from serving.presentation.table import Table
from serving.process.process_priority import settle
from serving.process.server_process import ServerProcess

# Devices, sequences in each one's batch, and the speed that brings a step of that batch to some 5 to 30 ms.
PACING = [(1, 1, 1.0), (1, 4, 1.0), (1, 16, 3.0), (4, 1, 1.0), (4, 4, 1.0)]
STREAMS, STREAM_TOKENS = 64, 2400
INSTANT = 1e6
DAY_REQUESTS = 100_000
TOKENS, QUICK_TOKENS = 300, 100
QUICK_POINTS = 8
FAILED = "failed"

Part = Callable[[Servers, bool], Any]


def bench(quick: bool, token_model: str, only: str | None = None) -> dict[str, Any]:
    """Run all parts, or `only` one, and return their figures by name; `quick` runs take a third of the length. A part
    that fails has why, by the name `FAILED`, in their place."""
    settle()
    servers = Servers(token_model)
    results = {}
    for name, (about, part) in PARTS.items():
        if only in (None, name) or name in BESIDE.get(only or "", ()):
            say(f"{about} ...")
            results[name] = _figures(name, part, servers, quick)
    return results


def _figures(name: str, part: Part, servers: Servers, quick: bool) -> Any:
    """Return a part's figures, or why there are none: the minutes of the other parts are not to be lost by it. Raise
    ModuleNotFoundError where what is missing is not installed."""
    try:
        return part(servers, quick)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        why = str(error) or type(error).__name__
        say(f"{name} failed: {why}")
        return {FAILED: why}


def has_failed(results: dict[str, Any]) -> bool:
    """Tell whether a part has."""
    return any(isinstance(found, dict) and FAILED in found for found in results.values())


def pacing(servers: Servers, quick: bool) -> list[dict[str, Any]]:
    """Return the lateness of decode steps, in real milliseconds, for each of `PACING`."""
    return [_paced(servers, *each, QUICK_TOKENS if quick else TOKENS) for each in PACING]


def _paced(servers: Servers, devices: int, batch: int, speed: float, output_len: int) -> dict[str, Any]:
    with servers.recorded(devices, speed) as (child, records):
        load(child.http_url, devices * batch, output_len)
    steps = [record for record in records if record.phase == "decode" and record.batch == batch]
    if not steps:
        raise RuntimeError(f"{devices} devices made no step of a batch of {batch}.")
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


def streaming(servers: Servers, quick: bool) -> dict[str, float]:
    """Return tokens per real second of an instant device's recorded text, through each edge and vLLM's front end in
    Rust where that is there, client included, and the seconds until it was ready."""
    options = front_end_options() if has_rust_front_end() else ()
    with servers.running(1, INSTANT, "--text", "recorded", *options) as child:
        urls = {"http": child.http_url, "grpc": child.grpc_url} | (
            {"vllm_rs": front_end_url(options)} if options else {}
        )
        found = {f"{name}_tokens_per_s": _tokens_per_s(url, child, quick) for name, url in urls.items()}
    return found | {"ready_s": round(child.ready_s, 1)}


def _tokens_per_s(url: str, child: ServerProcess, quick: bool) -> int:
    metrics = f"{child.http_url}/metrics"
    load(url, STREAMS, 16, metrics)
    # Else the first answer is whole, from a batch of its own, before the next request has come.
    stand_still(child.http_url, 1, SETTLED_S * INSTANT, 0.0)
    report = load(url, STREAMS, STREAM_TOKENS // (3 if quick else 1), metrics)
    tpot_s = report.summary.tpot_s.mean
    assert tpot_s, "all have completed, each with many tokens"
    return round(STREAMS / tpot_s * INSTANT)


def metrics(servers: Servers, quick: bool) -> dict[str, Any]:
    """Return what metrics cost, by modules of an edge, which a light install lacks: other parts do without."""
    from serving.bench.metrics import metrics_cost

    return metrics_cost()


def virtual(servers: Servers, quick: bool) -> dict[str, Any]:
    """Return the pace of virtual time."""
    return virtual_pace() if quick else virtual_pace() | {"day": day_pace(DAY_REQUESTS)}


PARTS: dict[str, tuple[str, Part]] = {
    "probe": ("The device model's answers", lambda servers, quick: probes(HARDWARE, MODEL)),
    "decisions": ("The scheduler's decisions", lambda servers, quick: decisions()),
    "metrics": ("What metrics cost", metrics),
    "virtual": ("Virtual time", virtual),
    "study": ("Studies", lambda servers, quick: sweep_pace(QUICK_POINTS if quick else POINTS)),
    "pacing": ("Pacing of devices", pacing),
    "live": ("What clients see", lambda servers, quick: list(live(servers, QUICK_TOKENS if quick else TOKENS))),
    "news": ("News of arrivals", lambda servers, quick: list(news(servers, quick))),
    "cpu_us": ("What a token costs", lambda servers, quick: cpu_us(servers, QUICK_TOKENS if quick else TOKENS)),
    "stream": ("Streams of an instant device", streaming),
}
"""The parts by their names in the results, in this order: a line of progress, and the function that measures."""
BESIDE = {"live": ("cpu_us",)}
"""What is measured with a part that is asked for alone."""


def say(line: str) -> None:
    """Print a line of progress on stderr, apart from the results."""
    print(line, file=sys.stderr, flush=True)


def show(results: dict[str, Any], console: Console) -> None:
    """Print the results for people."""
    for name, found in results.items():
        if isinstance(found, list):
            # Not every row has every figure.
            heads = list(dict.fromkeys(head for row in found for head in row))
            console.print(Table(heads, [[str(row.get(head, "")) for head in heads] for row in found], name))
            continue
        for line in _lines(name, found):
            console.print(line, highlight=False)


def _lines(name: str, found: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each figure, also of those within others."""
    for what, value in found.items():
        if isinstance(value, dict):
            yield from _lines(f"{name}: {what}", value)
        else:
            yield f"{name}: {what}: {value:,}" if isinstance(value, int | float) else f"{name}: {what}: {value}"

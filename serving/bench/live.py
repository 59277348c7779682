"""Benchmarks of live streams: how well clients see the modelled pace, and the processor time of each token."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx

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
    stand_still,
)
from serving.process.server_process import ServerProcess
from serving.scenario.scenario import RUST_FRONT_END
from serving.usage_error import UsageError

MICRO = 1e6


class Streams(NamedTuple):
    """Streams spread over devices whose steps take `step_ms` real milliseconds, when all of them are there; `text` is
    the server's `--text`. They arrive evenly within `ramp_s` real seconds, in which the devices stand still, or else
    at once."""

    streams: int
    devices: int
    step_ms: float
    text: str = "auto"
    edge: str = "http"
    ramp_s: float = 0.0

    def rate_per_s(self, speed: float) -> float:
        """Return the arrivals per emulated second."""
        return self.streams / self.ramp_s / speed if self.ramp_s else float("inf")

    def speed(self, output_len: int) -> float:
        """Return the speed at which modelled steps take `step_ms` on average over `output_len` tokens."""
        batch = self.streams // self.devices
        device = load_device("elmoe3d", HARDWARE, MODEL)
        plan = StepPlan.of(*[(1, INPUT_TOKENS)] * batch)
        modelled_s = device.probe(plan, output_len).latency_s.mean()
        return float(modelled_s / (self.step_ms / 1e3))


# A thousand first tokens at once would be the lateness that is seen; a fleet's devices are not in step either.
RAMP_S, SETTLED_S, SPREAD_S = 10.0, 3.0, 2.0
# On two cores the text is scarce first, which is why some streams have it recorded, and then the edge.
LIVE = (
    Streams(16, 4, 20.0, "vllm"),
    Streams(64, 4, 20.0, "vllm"),
    Streams(64, 4, 20.0),
    Streams(256, 4, 20.0),
    # They begin together: steps of small batches are so short that those who came first would have ended, and on a
    # small machine all devices making them would leave no time to take the others in.
    Streams(1000, 16, 50.0, "recorded", ramp_s=RAMP_S),
    Streams(1000, 16, 25.0, "recorded", ramp_s=RAMP_S),
)
# vLLM's front end in Rust, where it is.
RUST = (
    Streams(64, 4, 20.0, "recorded", RUST_FRONT_END),
    Streams(256, 4, 20.0, "recorded", RUST_FRONT_END),
    Streams(1000, 16, 25.0, "recorded", RUST_FRONT_END, RAMP_S),
)
SEEN = ("modelled_ms", "seen_ms", "error_percent", "late_percent", "p99_late_ms", "tokens_per_s")
"""Milliseconds between tokens, a request's mean, as its device modelled it and as its client saw it, and their
difference; tokens that were not there in time; how late tokens went out, at the 99th percentile at most; and the tokens
that all clients together saw in a second."""
COSTLY = Streams(64, 4, 20.0, "vllm")
SEVERAL_SOURCES = ("--token-sources", "2")
EDGES = (2, 4)
ACTORS_OF_DEVICES = ("device", "scheduler", "device_model", "slow_tier")
IDLE_S = 3.0
# What users run: with so many streams a device drafts, and a step gives each of them several tokens.
DEFAULT_MODE = ("--mode", "tau")


def live(servers: Servers, output_len: int) -> Iterator[dict[str, Any]]:
    """Yield, for each of `LIVE` over HTTP, the mean time between tokens as clients see it, and as modelled."""
    for streams in LIVE + (RUST if has_rust_front_end() else ()):
        asked = {name: getattr(streams, name) for name in Streams._fields}
        try:
            yield asked | _seen(servers, streams, output_len) | {"failed": ""}
        except (RuntimeError, UsageError, httpx.HTTPError) as error:
            # The other rows are none the worse for it.
            yield asked | dict.fromkeys(SEEN) | {"failed": str(error)}


def _seen(servers: Servers, streams: Streams, output_len: int) -> dict[str, float]:
    """Return the figures of `SEEN`. Raise RuntimeError if a request failed."""
    speed = streams.speed(output_len)
    options = front_end_options() if streams.edge == RUST_FRONT_END else ()
    with servers.running(streams.devices, speed, "--text", streams.text, *options) as child:
        url = front_end_url(options) if options else child.http_url
        rate_per_s = streams.rate_per_s(speed)
        if streams.ramp_s:
            still_s = (streams.ramp_s + SETTLED_S) * speed
            stand_still(child.http_url, streams.devices, still_s, SPREAD_S * speed)
        report = load(url, streams.streams, output_len, f"{child.http_url}/metrics", rate_per_s=rate_per_s)
    found, seen_s = report.fidelity, report.summary.tpot_s.mean
    if found is None or found.broken or not (found.tpot_mean_s and seen_s):
        raise RuntimeError(f"the devices' own pace is not known: {found.broken if found else 'there are no metrics'}")
    figures = (
        round(found.tpot_mean_s / speed * 1e3, 3),
        round(seen_s / speed * 1e3, 3),
        round((seen_s / found.tpot_mean_s - 1) * 100, 2),
        round(100 * found.underruns / report.summary.output_tokens, 2),
        round((found.lateness_p99_s or 0.0) / speed * 1e3, 1),
        round(streams.streams * speed / seen_s),
    )
    return dict(zip(SEEN, figures, strict=True))


def cpu_us(servers: Servers, output_len: int) -> dict[str, float]:
    """Return the processor microseconds of tokens and of requests by kind of process, and of a device's step."""
    parts = (_of_made_text, _of_recorded_text, _of_several_edges, _of_default_mode, _of_rust_front_end)
    return {name: cost for part in parts for name, cost in part(servers, output_len).items()}


def _of_made_text(servers: Servers, output_len: int) -> dict[str, float]:
    """Return the costs with text that vLLM makes, from one token source, and of a token from several."""
    found: dict[str, float] = {}
    with servers.running(COSTLY.devices, COSTLY.speed(output_len), "--text", COSTLY.text) as child:
        http, grpc, top_p = (
            _each(child, url, output_len, **fields)
            for url, fields in ((child.http_url, {}), (child.grpc_url, {}), (child.http_url, {"top_p": 0.9}))
        )
    batch = COSTLY.streams / COSTLY.devices
    found["source_token_vllm"], found["source_token_top_p"] = http.token["source"], top_p.token["source"]
    for name, each in (("http", http), ("grpc", grpc)):
        found[f"edge_token_{name}"], found[f"edge_request_{name}"] = each.token["edge"], each.request["edge"]
        found[f"client_token_{name}"] = each.token["client"]
    found["client_token"] = http.token["client"]
    found["device_step"] = round(batch * (http.token["device"] + http.token["scheduler"]), 1)
    with servers.running(COSTLY.devices, COSTLY.speed(output_len), "--text", "vllm", *SEVERAL_SOURCES) as child:
        found["source_token_2_sources"] = _each(child, child.http_url, output_len).token["source"]
    return found


def _of_recorded_text(servers: Servers, output_len: int) -> dict[str, float]:
    """Return the costs of recorded tokens, and the processor milliseconds a second of a device without work."""
    with servers.running(COSTLY.devices, COSTLY.speed(output_len), "--text", "recorded") as child:
        token = _each(child, child.http_url, output_len).token
        idle_ms_per_s = _idle_ms_per_s(child)
    return {
        "source_token_recorded": token["source"],
        "edge_token_recorded": token["edge"],
        "device_idle_ms_per_s": idle_ms_per_s,
    }


def _of_several_edges(servers: Servers, output_len: int) -> dict[str, float]:
    """Return the costs of edges in processes of their own, and of the engine core before them."""
    found: dict[str, float] = {}
    for edges in EDGES:
        several = ("--text", "recorded", "--edges", str(edges))
        with servers.running(COSTLY.devices, COSTLY.speed(output_len), *several) as child:
            apart = _each(child, child.http_url, output_len)
            found[f"edge_token_{edges}_edges"] = apart.token["own_edge"]
            # Of the fewest edges: each more has a message of its own of each release.
            found.setdefault("core_token", apart.token["edge"])
            found.setdefault("core_request", apart.request["edge"])
            found[f"core_token_{edges}_edges"] = apart.token["edge"]
    return found


def _of_default_mode(servers: Servers, output_len: int) -> dict[str, float]:
    """Return the costs in the default mode, at the device's own pace."""
    with servers.running(COSTLY.devices, 1.0, "--text", COSTLY.text, *DEFAULT_MODE) as child:
        token = _each(child, child.http_url, output_len).token
    return {f"{kind}_token_default_mode": token[kind] for kind in ("source", "edge", *ACTORS_OF_DEVICES)}


def _of_rust_front_end(servers: Servers, output_len: int) -> dict[str, float]:
    """Return the costs of vLLM's front end in Rust, and of the engine core behind it, where it is."""
    if not has_rust_front_end():
        return {}
    options = front_end_options()
    with servers.running(COSTLY.devices, COSTLY.speed(output_len), "--text", "recorded", *options) as child:
        token = _each(child, front_end_url(options), output_len).token
    return {"edge_token_vllm_rs": token["edge"], "front_end_token_vllm_rs": token["front_end"]}


class Cost(NamedTuple):
    """Processor microseconds by kind of process: of one token more, and of a request with none."""

    token: dict[str, float]
    request: dict[str, float]


def _each(child: ServerProcess, url: str, output_len: int, **fields: Any) -> Cost:
    """Return what tokens and requests cost each kind of process, from answers of two lengths. What a process costs by
    being there, for as long as a token takes, is in the token."""
    metrics = f"{child.http_url}/metrics"
    # The first of a process take longer.
    load(url, COSTLY.streams, output_len // 4, metrics, **fields)
    short, few = _spent(child, url, output_len // 3, **fields)
    long, many = _spent(child, url, output_len, **fields)
    token = {kind: (long[kind] - short[kind]) / (many - few) for kind in long}
    request = {kind: (short[kind] - few * token[kind]) / COSTLY.streams for kind in long}
    return Cost(*({kind: round(MICRO * cost, 1) for kind, cost in each.items()} for each in (token, request)))


def _spent(child: ServerProcess, url: str, output_len: int, **fields: Any) -> tuple[dict[str, float], int]:
    """Return the seconds of processor time that a load takes of each kind of process, and its tokens."""
    before = cpu_times(child)
    tokens = load(url, COSTLY.streams, output_len, f"{child.http_url}/metrics", **fields).summary.output_tokens
    return {kind: spent - before[kind] for kind, spent in cpu_times(child).items()}, tokens


def _idle_ms_per_s(child: ServerProcess) -> float:
    """Return the processor milliseconds that each device takes in a second, with its scheduler, when nobody asks."""
    before = cpu_times(child)
    time.sleep(IDLE_S)
    after = cpu_times(child)
    spent_s = sum(after[kind] - before[kind] for kind in ("device", "scheduler"))
    return round(1e3 * spent_s / IDLE_S / COSTLY.devices, 1)

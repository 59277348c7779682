"""`foreserve locality`: what the token model's real routing says of locality, beside the laws (ELMoE-3D, Fig. 16)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from device_model.experts.locality_laws import PassTokens
from device_model.experts.route_map import RouteMap, Routers
from device_model.load import load_setup
from device_model.step import IntArray
from device_model.validation.table3 import TABLE3
from serving.lab.corpus import corpus
from serving.lab.locality_of_routes import fit, in_lanes, law, lru_hit_rate, runs, top_quarter, touched, usage
from serving.presentation.json_text import json_text
from serving.presentation.table import Table
from serving.presentation.wide_console import wide_console
from serving.process.output_folder import make_folder, make_place
from serving.simulation.recorded_routes import TapedRequest, record
from serving.token_model.route_format import format_of
from serving.token_source.route_profile import RouteProfile, profile
from serving.topics.names import TOPICS
from serving.usage_error import UsageError

SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
BATCHES = (1, 2, 4, 8, 16, 32)
RUNS = (1, 2, 4, 8, 16, 32)
STEPS = 200
TOPIC_BATCH = 4
HARDWARE = "elmoe3d-8gb"
MODELS = ("qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b")

Requests = Sequence[IntArray]
Result = dict[str, Any]


class Written(NamedTuple):
    """What is written: into a folder `out` what was found, with pictures; the routes themselves as a file `record`."""

    out: Path | None = None
    record: Path | None = None


def locality(token_model: str, prompts: int, tokens: int, seed: int, written: Written) -> int:
    """Profile `prompts` requests a topic, and print what was found. Raise UsageError if they are too short."""
    if tokens < max(RUNS):
        raise UsageError(f"--tokens is {tokens}; allowed is {max(RUNS)} or more: runs of so many are looked at.")
    out = written.out
    if out is not None:
        make_folder("--out", out)
    if written.record is not None:
        make_place("--record", written.record)
    asked = [(topic, prompt) for topic in TOPICS for prompt in corpus.prompts(topic, prompts, seed)]
    found = profile(token_model, asked, tokens, seed)
    if written.record is not None:
        requests = [
            TapedRequest(p.topic, p.all_routes, [*p.prompt_ids, *p.tokens][:-1], len(p.prompt_ids)) for p in found
        ]
        record(requests, written.record)
    if max(len(each.routes) for each in found) < max(RUNS):
        what = f"no answer came to {max(RUNS)} tokens, and runs of so many are looked at"
        raise UsageError(f"--prompts is {prompts}, and {what}; allowed is more of them.")
    result = measure(found, format_of(token_model).routers, seed)
    result |= {"prompts_per_topic": prompts, "tokens_per_request": tokens, "seed": seed}
    print_result(wide_console(), result)
    if out is not None:
        from serving.lab.locality_plots import draw

        (out / "locality.json").write_text(json_text(result, indent=1) + "\n", encoding="utf-8")
        draw(result, out / "locality.png")
    return 0


def measure(found: Sequence[RouteProfile], routers: Routers, seed: int) -> Result:
    """All of it, from the routes alone."""
    requests = [profiled.routes for profiled in found]
    by_topic = {topic: [p.routes for p in found if p.topic == topic] for topic in TOPICS}
    hits = {(s, b): _rate(requests, routers, s, b, seed) for s in SHARES for b in BATCHES}
    lanes = in_lanes(requests, max(RUNS), STEPS, np.random.default_rng(seed))
    between = {n: touched(list(lanes[:, :n]), routers) for n in RUNS}
    within = {n: touched(runs(requests, n), routers) for n in RUNS}
    together = {(n, 1): share for n, share in between.items()} | {(1, n): share for n, share in within.items()}
    speculation = load_setup(HARDWARE, MODELS[0]).speculation
    fitted = fit(routers, hits, together, speculation)
    experts = law(routers, *fitted)
    used = {topic: usage(by_topic[topic], routers) for topic in TOPICS}
    return {
        "routers": routers._asdict(),
        "usage": {topic: np.round(shares, 5).tolist() for topic, shares in used.items()},
        "top_quarter": {topic: np.round(top_quarter(shares), 3).tolist() for topic, shares in used.items()},
        "hits": [
            {"share": s, "batch": b, "trace": rate, "law": float(experts.hits(s, PassTokens(b, 1)))}
            for (s, b), rate in hits.items()
        ],
        "touched": [
            {
                "tokens": n,
                "between_requests": between[n],
                "within_a_request": within[n],
                "law_between": experts.touched(PassTokens(n, 1)),
                "law_within": experts.touched(PassTokens(1, n)),
            }
            for n in RUNS
        ],
        "fitted": {
            "popularity_spread": fitted[0].popularity_spread,
            "hit_exponent": fitted[0].hit_exponent,
            "draft_exponent": fitted[0].draft_exponent,
        },
        "models": [row for model in MODELS for row in _as_model(requests, routers, model, seed)],
        "topics": [
            {"topic": topic, "share": s, "trace": _rate(by_topic[topic], routers, s, TOPIC_BATCH, seed)}
            for topic in TOPICS
            for s in SHARES
        ],
    }


def _rate(requests: Requests, routers: Routers, share: float, batch: int, seed: int) -> float:
    return lru_hit_rate(in_lanes(requests, batch, STEPS, np.random.default_rng(seed)), routers, share)


def _as_model(requests: Requests, source: Routers, name: str, seed: int) -> list[Result]:
    """Return the results of the routes as those of an emulated model, beside the law that Table 3 was fitted with."""
    setup = load_setup(HARDWARE, name)
    target = Routers(setup.model.expert_layers, setup.model.experts, setup.model.top_k)
    as_target = RouteMap(source, target)
    mapped = [as_target(routes) for routes in requests]
    calibrated = law(target, setup.locality, setup.speculation)
    return [
        {
            "model": name,
            "batch": batch,
            "share": share,
            "trace": _rate(mapped, target, share, batch, seed),
            "law": float(calibrated.hits(share, PassTokens(batch, 1))),
        }
        for batch in (1, 8)
        for share in SHARES
    ]


def print_result(console: Console, result: Result) -> None:
    """Tables on the terminal."""
    _print_hits(console, result)
    keys = ("between_requests", "law_between", "within_a_request", "law_within")
    unique = [[str(row["tokens"]), *(f"{row[key]:.3f}" for key in keys)] for row in result["touched"]]
    heads = ["tokens", "of as many requests", "law", "of one request", "law"]
    console.print(Table(heads, unique, "Share of experts touched"))
    models = []
    for name in MODELS:
        for batch in (1, 8):
            rows = [row for row in result["models"] if (row["model"], row["batch"]) == (name, batch)]
            models.append([name, str(batch), *map(_percent, rows)])
    heads = ["model", "batch", *(f"{share:.3g}" for share in SHARES)]
    console.print(Table(heads, models, "As another model, hits in %: trace / its law"))
    quarters = [[topic, "  ".join(f"{share:.2f}" for share in own)] for topic, own in result["top_quarter"].items()]
    title = "Share of a topic's choices that its top quarter of experts gets"
    console.print(Table(["topic", "by layer"], quarters, title))
    fitted = ", ".join(f"{name} {value:.3f}" for name, value in result["fitted"].items())
    console.print(f"Laws fitted to this routing: {fitted} (what {TABLE3.name} was fitted with: specs/calibration)")


def _print_hits(console: Console, result: Result) -> None:
    by_batch = {batch: [row for row in result["hits"] if row["batch"] == batch] for batch in BATCHES}
    lines = [[str(batch), *map(_percent, rows)] for batch, rows in by_batch.items()]
    heads = ["batch", *(f"{share:.3g}" for share in SHARES)]
    console.print(Table(heads, lines, "LRU hits by share of experts held: trace / law"))
    off = [abs(row["trace"] - row["law"]) for row in result["hits"]]
    console.print(f"Trace against law: {np.mean(off):.3f} apart on average, at most {max(off):.3f}")


def _percent(row: Result) -> str:
    return f"{100 * row['trace']:.0f} / {100 * row['law']:.0f}"

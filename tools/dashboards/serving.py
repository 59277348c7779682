"""*Serving*: what clients were promised, and what they get. The SLOs come first."""

from collections.abc import Mapping

from grafana_foundation_sdk.builders import timeseries

from serving.refusals import Reason
from tools.dashboards.frame import Panels, dashboard
from tools.dashboards.panels import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    QUANTILES,
    RED,
    SKY,
    YELLOW,
    Query,
    areas,
    by_begin,
    by_device,
    dashed,
    figure,
    limit,
    lines,
    painted,
)
from tools.dashboards.promql import (
    EACH,
    RANGE,
    emulated,
    grown,
    mean,
    quantile,
    quotient,
    ratio,
    select,
    share,
    summed,
)

MET, MISSED = 'met="true"', 'met="false"'
ATTAINED = {0.9: ORANGE, 0.95: GREEN}
CLASSES = {"interactive": BLUE, "standard": GREEN, "batch": ORANGE, "none": BLACK, "custom": PURPLE}
REASONS = {"stop": GREEN, "length": BLUE, "abort": BLACK, "error": RED, "repetition": PURPLE}
TURNED_AWAY: dict[str, str] = {Reason.TTFT: RED, Reason.QUEUE: ORANGE, Reason.REQUESTS: BLUE, Reason.TOKENS: SKY}
TOPICS = {
    **{"legal": BLUE, "humanities": ORANGE, "cs": GREEN, "science": PURPLE, "math": SKY, "logic": RED},
    **{"other": YELLOW, "unknown": BLACK},
}
TTFT, TPOT = "vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds"
ITL, E2E = "vllm:inter_token_latency_seconds", "vllm:e2e_request_latency_seconds"
TOKENS, REQUESTS = "suffix: tok/s", "reqps"


def made() -> str:
    """Return the dashboard as JSON."""
    text = "SLOs, latency, queues and throughput of an emulated service. Seconds are emulated ones."
    rows = {"": figures(), "SLOs": slos(), "Latency": latency(), "Queue": queue(), "Throughput": throughput()}
    return dashboard("serving", "Serving", text, rows)


def figures() -> Panels:
    """How it is at a glance."""
    met = ratio(
        grown("foreserve_slo_requests_total", MET, window=RANGE), grown("foreserve_slo_requests_total", window=RANGE)
    )
    return [
        figure("SLO attainment", "Requests that met all their targets, of those that ended, in the time shown.",
               "percentunit", Query(met), {0.0: RED, **ATTAINED}),
        figure("Goodput", "Requests per emulated second that met all their targets.", REQUESTS,
               Query(emulated("foreserve_slo_requests_total", MET))),
        figure("Goodput, tokens", "Tokens per emulated second of requests that met all their targets.", TOKENS,
               Query(emulated("foreserve_slo_tokens_total", MET))),
        figure("TTFT p99", "Time to the first token, 99th percentile.", "s", Query(quantile(0.99, TTFT))),
        figure("TPOT p99", "Time per output token after the first, of each request; 99th percentile.", "s",
               Query(quantile(0.99, TPOT))),
        figure("Running", "Requests in the devices' batches.", "none",
               Query(summed(select("vllm:num_requests_running")))),
        figure("Waiting", "Requests that have not begun.", "none",
               Query(f"{summed(select('foreserve_queue_requests'))} or vector(0)")),
        figure("Turned away", "Requests per emulated second that were refused: a limit, or a first token that would "
               "come too late.", REQUESTS, Query(emulated("foreserve_rejections_total")), {0.001: ORANGE}),
    ]  # fmt: skip


def slos() -> Panels:
    """Attainment and goodput, by class."""
    requests, by = "foreserve_slo_requests_total", "slo_class"
    return [
        painted(limit(lines(
            "SLO attainment by class", "Share of the requests that ended and met every target of their class. The "
            "dashed line is the objective of the alerts. Requests that were turned away are not in it.", "percentunit",
            Query(share(requests, MET, by=by), "{{slo_class}}"),
        ).max(1), 0.95), CLASSES),
        painted(areas(
            "Goodput by class, requests", "Requests per emulated second that met every target of their class.",
            REQUESTS, Query(emulated(requests, MET, by=by), "{{slo_class}}"),
        ), CLASSES),
        painted(areas(
            "Goodput by class, tokens", "Tokens per emulated second of requests that met every target of their class.",
            TOKENS, Query(emulated("foreserve_slo_tokens_total", MET, by=by), "{{slo_class}}"),
        ), CLASSES),
        dashed(by_begin(lines(
            "Missed targets", "Requests per emulated second that missed a target, by class: time to first token, or "
            "(dashed) time per token.", REQUESTS,
            Query(emulated("foreserve_slo_misses_total", by="slo_class, target"), "{{slo_class}}: {{target}}"),
        ), CLASSES), ": tpot$"),
        painted(lines(
            "SLO attainment by topic", "Share of the requests that ended and met every target of their class, by what "
            "they are about (unknown, where nobody asked).", "percentunit",
            Query(share(requests, MET, by="topic"), "{{topic}}"),
        ).max(1), TOPICS),
        painted(areas(
            "Turned away, by reason", "Requests per emulated second. ttft: its first token was predicted to come later "
            "than its target; the others are limits of the queue and of API keys.", REQUESTS,
            Query(emulated("foreserve_rejections_total", by="reason"), "{{reason}}"),
        ), TURNED_AWAY),
    ]  # fmt: skip


def latency() -> Panels:
    """Quantiles, and where the time goes."""
    phases = {phase: f"vllm:request_{phase}_time_seconds" for phase in ("queue", "prefill", "decode")}
    return [
        quantiles("Time to first token", "From a request's arrival to its first token, in emulated seconds. Dashed: "
                  "what classes are promised.", TTFT, "ttft"),
        quantiles("Time per output token", "Of each request, after its first token, in emulated seconds. Dashed: what "
                  "classes are promised.", TPOT, "tpot"),
        quantiles("Inter-token latency", "Between two outputs of a stream, in emulated seconds. A step of speculation "
                  "may have several tokens, which come out as one.", ITL),
        quantiles("End-to-end latency", "From a request's arrival to its last token, in emulated seconds.", E2E),
        quantiles("Time in the queue", "From a request's arrival to the begin of its first step, in emulated seconds.",
                  phases["queue"]),
        painted(areas(
            "Where the time goes", "Mean emulated seconds of a request in each phase: waiting, prompt, tokens.", "s",
            *(Query(mean(histogram), phase) for phase, histogram in phases.items()),
        ), {"queue": ORANGE, "prefill": PURPLE, "decode": BLUE}),
    ]  # fmt: skip


def quantiles(title: str, text: str, histogram: str, target: str = "") -> timeseries.Panel:
    """Quantiles of a latency, beside the target that classes have for it."""
    found = [Query(quantile(q, histogram), f"p{100 * q:g}") for q in (0.5, 0.9, 0.99)]
    if target:
        targets = select("foreserve_slo_target_seconds", f'target="{target}"')
        found.append(Query(f"max by (slo_class) ({targets})", "promised: {{slo_class}}"))
    return dashed(painted(lines(title, text, "s", *found), QUANTILES), "^promised")


def queue() -> Panels:
    """Who waits."""
    waiting = select("foreserve_queue_requests")
    return [
        painted(areas("Waiting by class", "Requests that have not begun, by SLO class.", "none",
                      Query(summed(waiting, "slo_class"), "{{slo_class}}")), CLASSES),
        painted(areas("Waiting by topic", "Requests that have not begun, by what they are about.", "none",
                      Query(summed(waiting, "topic"), "{{topic}}")), TOPICS),
        by_device(lines("Oldest waiter", "For how long, in emulated seconds, the oldest request that has not begun has "
                        "waited. Growing without end: a policy starves it.", "s",
                        Query(f"max by ({EACH}) ({select('foreserve_queue_oldest_seconds')})",
                              "{{instance}} · {{device}}"))),
        by_device(lines("Running", "Requests in a device's batch.", "none",
                        Query(f"sum by (instance, engine) ({select('vllm:num_requests_running')})",
                              "{{instance}} · {{engine}}"))),
        by_device(lines("Waiting by device", "Requests that have not begun, by the device they are for.", "none",
                        Query(summed(waiting, EACH), "{{instance}} · {{device}}"))),
        by_device(lines("Preemptions", "Per emulated second: requests whose KV cache had to make room.", REQUESTS,
                        Query(emulated("vllm:num_preemptions_total", by="instance, engine"),
                              "{{instance}} · {{engine}}"))),
    ]  # fmt: skip


def throughput() -> Panels:
    """Return the panels of what comes out, and what the KV cache spares."""
    tokens: Mapping[str, str] = {"prompt": PURPLE, "generated": BLUE}
    hits, queries = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
    return [
        painted(lines(
            "Tokens", "Per emulated second: of prompts, and generated.", TOKENS,
            Query(emulated("vllm:prompt_tokens_total"), "prompt"),
            Query(emulated("vllm:generation_tokens_total"), "generated"),
        ), tokens),
        by_device(lines(
            "Tokens by device", "Generated per emulated second.", TOKENS,
            Query(emulated("vllm:generation_tokens_total", by="instance, engine"), "{{instance}} · {{engine}}"),
        )),
        painted(areas(
            "Requests that ended, by reason", "Per emulated second. stop: its own end, or a stop string; length: "
            "max_tokens; abort: its client left; error: it failed.", REQUESTS,
            Query(emulated("vllm:request_success_total", by="finished_reason"), "{{finished_reason}}"),
        ), REASONS),
        by_device(lines(
            "Prefix cache hits", "Share of the prompts' tokens that were in the KV cache.", "percentunit",
            Query(quotient(hits, queries, "instance, engine"), "{{instance}} · {{engine}}"),
        ).max(1)),
        by_device(limit(lines(
            "KV cache in use", "Share of the device's KV cache. At 1, requests wait or are preempted.", "percentunit",
            Query(f"max by (instance, engine) ({select('vllm:kv_cache_usage_perc')})", "{{instance}} · {{engine}}"),
        ).max(1), 0.95)),
        painted(lines(
            "Length of requests", "Mean tokens of a request that ended: its prompt, and what was generated.", "none",
            Query(mean("vllm:request_prompt_tokens"), "prompt"),
            Query(mean("vllm:request_generation_tokens"), "generated"),
        ), tokens),
    ]  # fmt: skip

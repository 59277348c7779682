"""*Fidelity*: how well the host keeps the modelled pace, so that a slow host does not pass for slow hardware."""

from grafana_foundation_sdk.builders import timeseries

from serving.host_pace import DELIVERY as DELIVERY_CAUSE
from serving.host_pace import LATENESS_LIMIT as LIMIT
from serving.host_pace import STEPS, TEXT
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
    Query,
    by_device,
    cells,
    figure,
    limit,
    lines,
    painted,
    states,
)
from tools.dashboards.promql import (
    EACH,
    RANGE,
    buckets,
    emulated,
    encoded,
    grown,
    in_emulated,
    mean,
    quantile,
    quotient,
    rate,
    ratio,
    select,
    summed,
)

DEVICE = "{{instance}} · {{device}}"
# What a host is too slow at.
CAUSES = {DELIVERY_CAUSE: BLUE, STEPS: ORANGE, TEXT: PURPLE}
LIMITED = {0.0: GREEN, 0.02: ORANGE, LIMIT: RED}
PACING, DELIVERY = "foreserve_pacing_error_seconds", "foreserve_delivery_delay_seconds"
TOKENS, CLOCK = "foreserve_released_tokens_total", "foreserve_emulated_seconds_total"


def made() -> str:
    """Return the dashboard as JSON."""
    text = "How well the host keeps the modelled pace. Lateness is in real seconds, what is modelled in emulated ones."
    rows = {"": figures(), "Lateness": lateness(), "Tokens that were not there": tokens(), "Host": host()}
    return dashboard("fidelity", "Fidelity", text, rows)


def late_share(late: str, modelled: str, by: str = "") -> str:
    """Mean lateness, which is in real seconds, over the mean of something modelled."""
    late_s = ratio(in_emulated(f"{late}_sum", by), summed(rate(f"{late}_count"), by))
    return f"{late_s} / ({mean(modelled, by)} > 0)"


def clock() -> str:
    """Emulated seconds per real one, of all instances."""
    return f"avg({rate(CLOCK)})"


def figures() -> Panels:
    """Tell whether latencies are the device's or the host's."""
    restarts = grown("foreserve_actor_restarts_total", window=RANGE)
    return [
        figure("Tokens late by", "Mean delay of tokens at their client's stream, over the mean modelled TTFT. From 5 % "
               "on latencies are the host's.", "percentunit",
               Query(late_share(DELIVERY, "vllm:time_to_first_token_seconds")), LIMITED),
        figure("Steps late by", "Mean delay of a device's steps over their mean modelled latency.", "percentunit",
               Query(late_share(PACING, "foreserve_step_latency_seconds")), LIMITED),
        figure("Underruns", "Share of the tokens released that vLLM had not made in time.", "percentunit",
               Query(quotient("foreserve_underruns_total", TOKENS)), LIMITED),
        figure("Pacing error p99", "Real seconds by which a device released a step late, 99th percentile.", "s",
               Query(quantile(0.99, PACING))),
        figure("Delivery delay p99", "Real seconds from a release to its client's stream, 99th percentile.", "s",
               Query(quantile(0.99, DELIVERY))),
        figure("Arrivals slipped", "Per emulated second: arrivals that missed a step as news of them came late.",
               "reqps", Query(emulated("foreserve_arrival_slips_total"))),
        figure("Speed", "Emulated seconds per real second.", "suffix: x", Query(clock())),
        figure("Restarts", "Actors that died and came back, in the time shown.", "none", Query(restarts), {1: ORANGE}),
    ]  # fmt: skip


def lateness() -> Panels:
    """By how much devices and the edge are late."""
    steps = late_share(PACING, "foreserve_step_latency_seconds", EACH)
    return [
        states("Too slow at", "What each host was too slow at for its load in the last 15 s, as `foreserve load` "
               "judges: latencies are the host's then.",
               Query(encoded("foreserve_host_too_slow", "cause", list(CAUSES), "instance"), "{{instance}}"), CAUSES,
               ).span(24).height(5),
        cells("Pacing error", "Steps per second by the real seconds by which a device released them late.", "s",
              Query(buckets(PACING), "{{le}}")),
        cells("Delivery delay", "Releases per second by the real seconds from a release's instant to its client's "
              "stream.", "s", Query(buckets(DELIVERY), "{{le}}")),
        painted(quantiles("Pacing error", "Real seconds by which devices released steps late.", PACING), QUANTILES),
        painted(quantiles("Delivery delay", "Real seconds from a release's instant to its client's stream.", DELIVERY),
                QUANTILES),
        by_device(lines("Pacing error by device", "Real seconds by which a device released steps late, 99th "
                        "percentile.", "s", Query(quantile(0.99, PACING, EACH), DEVICE)).span(6)),
        by_device(lines("Modelled step", "Mean modelled latency of a device's steps, in real seconds: what its host "
                        "has to make one.", "s", Query(real_step(), DEVICE)).span(6)),
        by_device(limit(lines(
            "Lateness over the modelled step", "Mean delay of a device's steps over their mean modelled latency. Above "
            "the dashed line latencies are the host's.", "percentunit", Query(steps, DEVICE),
        ).span(12), LIMIT)),
        painted(limit(lines(
            "Lateness over the modelled TTFT", "Mean delay of tokens at their client's stream over the mean modelled "
            "time to first token. Above the dashed line latencies are the host's.", "percentunit",
            Query(late_share(DELIVERY, "vllm:time_to_first_token_seconds"), "all"),
        ).span(12), LIMIT), {"all": BLUE}),
    ]  # fmt: skip


def real_step() -> str:
    """Mean modelled latency of a device's steps, in real seconds."""
    step = mean("foreserve_step_latency_seconds", EACH)
    return f"{step} / on (instance) group_left () (avg by (instance) ({rate(CLOCK)}) > 0)"


def quantiles(title: str, text: str, histogram: str) -> timeseries.Panel:
    """Quantiles of a lateness."""
    found = [Query(quantile(q, histogram), f"p{100 * q:g}") for q in (0.5, 0.9, 0.99)]
    return lines(f"{title}, quantiles", text, "s", *found, Query(mean(histogram), "mean")).span(6)


def tokens() -> Panels:
    """Return the panels of what vLLM or the news of an arrival was too late for."""
    return [
        by_device(limit(lines(
            "Underruns", "Share of the tokens a device released that vLLM had not made in time. They leave when they "
            "come. Above the dashed line latencies are the token model's: lower --speed.", "percentunit",
            Query(quotient("foreserve_underruns_total", TOKENS, EACH), DEVICE),
        ), LIMIT)),
        by_device(lines(
            "Arrivals slipped", "Per emulated second: arrivals that missed a step as news of them came late.", "reqps",
            Query(emulated("foreserve_arrival_slips_total", by=EACH), DEVICE),
        )),
        by_device(lines(
            "Tokens with guessed experts", "Share of the tokens released whose experts a traced cache had to guess, as "
            "vLLM had not routed them when the step began (only with --residency trace).", "percentunit",
            Query(quotient("foreserve_unrouted_tokens_total", TOKENS, EACH), DEVICE),
        )),
    ]  # fmt: skip


def host() -> Panels:
    """Return the panels of what the emulator itself takes."""
    return [
        painted(lines(
            "Clock", "Emulated seconds per real one, as they pass and as they should; busiest: those in which the "
            "device worked that did most.", "none",
            Query(clock(), "passes"), Query(f"avg({select('foreserve_speed')})", "should pass"),
            Query(f"max({summed(rate('foreserve_busy_seconds_total'), EACH)})", "busiest device"),
        ), {"passes": BLUE, "should pass": BLACK, "busiest device": ORANGE}),
        lines(
            "Restarts", "Actors that died and came back, between two points.", "none",
            Query(grown("foreserve_actor_restarts_total", by="instance, actor"), "{{instance}} · {{actor}}"),
        ),
        painted(lines(
            "Engine core", "Cores that the process of the engine core takes, and the edge's work, where that has no "
            "processes of its own (--edges), and seconds that a scrape takes.", "none",
            Query(summed(rate("process_cpu_seconds_total")), "cores"),
            Query(f"max({select('scrape_duration_seconds')})", "seconds of a scrape"),
        ), {"cores": BLUE, "seconds of a scrape": SKY}),
    ]  # fmt: skip

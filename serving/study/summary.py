"""A run in one row: latencies, attainment and goodput, joules, and what the devices did."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serving.refusals import OVERLOAD
from serving.study.measures.cost import COLUMNS as COSTS
from serving.study.measures.percentiles import METRICS, Percentile, percentile_of
from serving.study.measures.targets import Targets
from serving.study.recorder import Recorder
from serving.study.tables import column

Row = dict[str, Any]
ITL = "itl"
# Of an answer: how many seeds it is of, and the least and the most of a figure that one of them has alone.
SEEDS, LEAST, MOST = "seeds", " least", " most"
COLUMNS = {
    "requests": "requests that arrived",
    "refused": "of these, how many were turned away: they keep no target, and count for no latency",
    "never_served": "of these, how many no server would ever take on: longer than the context or a key's limit",
    "judged": "of all, how many arrive in the window that counts for latencies and attainment",
    "refused_share": "share of the judged requests that were turned away",
    "offered_per_s": "arrivals per second, from the first to the last",
    "attainment": "share of requests within both targets",
    "ttft_attainment": "share of requests within the TTFT target",
    "tpot_attainment": "share of requests within the TPOT target",
    "ttft_mean_s": "time to first token",
    "ttft_p50_s": "",
    "ttft_p90_s": "",
    "ttft_p95_s": "",
    "ttft_p99_s": "",
    "tpot_mean_s": "a request's mean time per output token after the first",
    "tpot_p50_s": "",
    "tpot_p90_s": "",
    "tpot_p95_s": "",
    "tpot_p99_s": "",
    "e2e_mean_s": "from arrival to last token",
    "e2e_p50_s": "",
    "e2e_p95_s": "",
    "e2e_p99_s": "",
    "queue_mean_s": "from arrival to first step",
    "queue_p99_s": "",
    "itl_p50_s": "time from a request's token to its next one, of those in the window that is judged, to 1 %; tokens "
    "that SD gives at once count once",
    "itl_p99_s": "",
    "span_s": "from 0 to the last token",
    "served_per_s": "requests per second of the span",
    "goodput_per_s": "judged requests within both targets, per second of the window in which they arrive, or the span",
    "prompt_tokens": "",
    "output_tokens": "",
    "tokens_per_s": "output tokens per second of the span",
    "joules": "of all devices, working and idle, over the span",
    "idle_joules": "of these, what devices drew that were there and had nothing to do",
    "compute_joules": "of steps, in computing",
    "fast_joules": "of steps, in the fast memory tier: HB, Stratum's rows, or HBM",
    "slow_joules": "of steps, in the slow tier or link: LPDDR, Stratum's interposer, or the host's memory",
    "comm_joules": "of steps, in links on the die",
    "static_joules": "of steps, whatever they do",
    "power_w": "joules per second of the span",
    "j_per_token": "joules per output token, idle ones included",
    "step_j_per_token": "joules per output token, of steps only",
    "busy_share": "share of the time that devices were there in which they were in a step",
    "batch_mean": "sequences in a step, over busy time",
    "sd_share": "share of decoding time in SD mode",
    "mode_changes": "between AR and SD, from one decode step to the next, of all devices",
    "hit_rate": "expert reads that the fast tier served",
    "beyond_hb_share": "hits that the paper's law has beyond what HB holds, over reads: if some, laws differ",
    "unpublished_share": "steps beyond what the device's paper published: a larger batch, or another size of HB",
    "accepted_share": "drafted tokens that were accepted",
    "cached_share": "prompt tokens that lay in the prefix cache",
    "steps": "",
    "preemptions": "",
    "swaps": "times that the fast tier was given other experts",
    "swap_s": "seconds that these took, of all devices",
    "swap_joules": "joules that these took",
}
"""What each figure is; where it says nothing, it is as its name says, or as the one before."""
COMPONENTS = ("compute", "slow", "fast", "comm", "static")
"""The parts of a step's energy, in the order of `device_model.step.Energy`."""
USUAL = {"ttft": (50, 90, 95, 99), "tpot": (50, 90, 95, 99), "e2e": (50, 95, 99), "queue": (99,), "itl": (50, 99)}
"""Percentiles that every run has; a study may ask for others."""


def is_figure(name: str) -> bool:
    """Tell whether a column has a figure of a run, or of runs with several seeds, and not a setting of them."""
    if name == SEEDS or name.endswith((LEAST, MOST)):
        return True
    of_target = name.removesuffix("_attainment") + "_s"
    return name in COLUMNS or name in COSTS or any(map(percentile_of, (name, of_target)))


def summary(recorder: Recorder, requests: bytes, targets: Targets, more: Sequence[Percentile] = ()) -> Row:
    """Return a run's figures by name: latencies and attainment of the judged requests, the rest of all. `more`
    percentiles are wanted beside the usual ones and the `targets`'."""
    usual = [Percentile(metric, percent) for metric, percents in USUAL.items() for percent in percents]
    wanted = [*usual, *(target.percentile for target in targets.percentiles), *more]
    return _of_requests(requests) | _latencies(recorder, requests, wanted, targets) | _of_steps(recorder, requests)


def _of_requests(requests: bytes) -> Row:
    judged, refused = column(requests, "judged"), column(requests, "refused") != ""
    arrival_s = column(requests, "arrival_s")
    ttft_ok, tpot_ok = column(requests, "ttft_ok")[judged], column(requests, "tpot_ok")[judged]
    never = ~np.isin(column(requests, "refused"), ["", *map(str, OVERLOAD)])
    row: Row = {"requests": len(judged), "refused": int(refused.sum()), "never_served": int(never.sum())}
    row["judged"] = int(judged.sum())
    row["refused_share"] = float(refused[judged].mean()) if judged.any() else 0.0
    span_s = float(np.ptp(arrival_s)) if len(arrival_s) > 1 else 0.0
    row["offered_per_s"] = (len(arrival_s) - 1) / span_s if span_s else 0.0
    ok = ttft_ok & tpot_ok
    for name, met in {"attainment": ok, "ttft_attainment": ttft_ok, "tpot_attainment": tpot_ok}.items():
        row[name] = float(met.mean()) if len(met) else 0.0
    return row


def _latencies(recorder: Recorder, requests: bytes, wanted: Sequence[Percentile], targets: Targets) -> Row:
    """Return means, percentiles, and of each percentile's target the share of requests within it."""
    judged, refused = column(requests, "judged"), column(requests, "refused") != ""
    row: Row = {}
    for metric in METRICS:
        percents = list(dict.fromkeys(each.percent for each in wanted if each.metric == metric))
        limits = [target for target in targets.percentiles if target.percentile.metric == metric]
        if metric == ITL:
            named = [Percentile(metric, each) for each in percents]
            row |= {each.figure: recorder.gaps.within_s(each.share) for each in named}
            # Tokens that those who were refused would have had are late, as many each as the others'.
            served = float((~refused[judged]).mean()) if judged.any() else 0.0
            row |= {target.attainment: served * recorder.gaps.share_within(target.limit_s) for target in limits}
            continue
        # A single token has no time per output token.
        counts = judged & ~refused & (column(requests, "output_tokens") > 1 if metric == "tpot" else True)
        values = column(requests, f"{metric}_s")[counts]
        row[f"{metric}_mean_s"] = float(values.mean()) if len(values) else 0.0
        for each in percents:
            row[Percentile(metric, each).figure] = float(np.percentile(values, each)) if len(values) else 0.0
        all_of = len(values) + int((judged & refused).sum())
        # Requests none of which has such a latency, or was refused, miss no target of it.
        none = float(judged.any())
        row |= {
            target.attainment: float((values <= target.limit_s).sum()) / all_of if all_of else none for target in limits
        }
    return row


def _of_steps(recorder: Recorder, requests: bytes) -> Row:
    span_s = recorder.last_s or 1.0
    judged, ok = column(requests, "judged"), column(requests, "ttft_ok") & column(requests, "tpot_ok")
    tokens, prompt = int(column(requests, "output_tokens").sum()), int(column(requests, "prompt_tokens").sum())
    there_s, busy_s = recorder.presence.there_s(recorder.last_s), recorder.presence.busy_s(recorder.last_s)
    idle_j = recorder.presence.idle_j(recorder.last_s)
    joules, sums = recorder.joules + idle_j, recorder.sums
    decoding_s = sum(recorder.mode_s.values())
    window_s = min(recorder.to_s, span_s) - recorder.from_s
    served_per_s = float((column(requests, "refused") == "").sum()) / span_s
    return {
        "span_s": span_s,
        "served_per_s": served_per_s,
        "goodput_per_s": float((ok & judged).sum()) / window_s if window_s > 0 else 0.0,
        "prompt_tokens": prompt,
        "output_tokens": tokens,
        "tokens_per_s": tokens / span_s,
        "joules": joules,
        "idle_joules": idle_j,
        **{f"{name}_joules": part for name, part in zip(COMPONENTS, recorder.energy_j, strict=True)},
        "power_w": joules / span_s,
        "j_per_token": joules / max(1, tokens),
        "step_j_per_token": recorder.joules / max(1, tokens),
        "busy_share": busy_s / (there_s or 1.0),
        "batch_mean": recorder.sequence_s / (busy_s or 1.0),
        "sd_share": recorder.mode_s["sd"] / (decoding_s or 1.0),
        "mode_changes": recorder.mode_changes,
        "hit_rate": sums["expert_hits"] / (sums["expert_lookups"] or 1.0),
        "beyond_hb_share": sums["hits_beyond_hb"] / (sums["expert_lookups"] or 1.0),
        "unpublished_share": sums["unpublished"] / (sums["steps"] or 1),
        "accepted_share": sums["accepted"] / (sums["drafted"] or 1),
        "cached_share": sums["cached_tokens"] / (sums["queried_tokens"] or 1),
        **{name: sums[name] for name in ("steps", "preemptions", "swaps", "swap_s")},
        "swap_joules": sums["swap_j"],
    }

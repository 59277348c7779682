"""Benchmark of a scheduler's decisions, in process: a full batch goes on, and ended sequences make room."""

import time
from itertools import count
from statistics import median, quantiles
from typing import Any

import numpy as np

from serving.scheduler.config import BATCHING, Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.topics.names import NAMES
from serving.types import Done, Request

RUNNING, DECISIONS, OUTPUT_TOKENS = 64, 2000, 60
WAITING = (10, 100, 1_000, 10_000)


def decisions() -> list[dict[str, Any]]:
    """Return the microseconds of a decision by policy and waiting requests; the last row is fair between 100 keys."""
    rows = [_decide(SchedulerRules(batching=name), waiting) for name in BATCHING for waiting in WAITING]
    return [*rows, _decide(SchedulerRules(batching="topic-aware", fairness="tokens"), 1_000)]


def decide_us() -> float:
    """Return the microseconds of a decision, first come, first served (median)."""
    found: float = _decide(SchedulerRules(), WAITING[0])["p50_us"]
    return found


def _decide(rules: SchedulerRules, waiting: int) -> dict[str, Any]:
    scheduler, requests, at = Scheduler(Limits(RUNNING, 8192, 10**7), rules), _requests(), 1.0
    for _ in range(RUNNING + waiting):
        scheduler.submit(next(requests))
    scheduler.plan(at, at, at, Done())
    taken_us = []
    for _ in range(DECISIONS):
        began_s = time.perf_counter()
        batch = scheduler.plan(at, at, at, Done(1))
        taken_us.append((time.perf_counter() - began_s) * 1e6)
        for _ in batch.started:
            scheduler.submit(next(requests))
        at += 0.01
    return {
        "batching": rules.batching,
        "fairness": rules.fairness,
        "waiting": waiting,
        "p50_us": round(median(taken_us), 1),
        "p99_us": round(quantiles(taken_us, n=100)[-1], 1),
    }


def _requests() -> Any:
    """Yield requests that end at different times, of all topics, keys, classes and lengths."""
    rng = np.random.default_rng(0)
    for i in count():
        prompt, output, kind = int(rng.integers(10, 300)), int(rng.integers(20, 2 * OUTPUT_TOKENS)), i % 3
        ttft_s = (0.5, 2.0, float("inf"))[kind]
        yield Request(str(i), 0.0, prompt, output, 0, i, NAMES[i % 7], f"key {i % 100}", kind, ttft_s)

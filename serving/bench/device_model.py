"""Benchmark of the device model's answers, in process."""

import timeit
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from device_model.load import load_device
from device_model.step import StepPlan

BATCH, CALLS, REPEATS, HORIZON = 64, 200, 7, 64


def probes(hardware: str, model: str) -> list[dict[str, Any]]:
    """Return the microseconds of a step's cost by draft scheme: of a new plan, a known one, and one of a horizon."""
    return [_probe(hardware, model, draft) for draft in (None, "eagle", "elastic")]


def _probe(hardware: str, model: str, draft: str | None) -> dict[str, Any]:
    device = load_device("elmoe3d", hardware, model, draft)
    shape = device.draft.shape if device.draft else None
    ones, contexts = np.ones(BATCH, dtype=np.int64), count(1024)
    # More plans than a device remembers, made beforehand, so that each one is new to it.
    plans = iter([StepPlan(ones, ones * next(contexts), shape) for _ in range(CALLS * REPEATS)])
    known = StepPlan(ones, ones * next(contexts), shape)
    result = {
        "draft": draft or "none",
        "batch": BATCH,
        "new_us": best_us(lambda: device.probe(next(plans))),
        "again_us": best_us(lambda: device.probe(known)),
    }
    if draft is None:
        horizons = iter([StepPlan(ones, ones * next(contexts)) for _ in range(CALLS * REPEATS)])
        result["of_64_us"] = round(best_us(lambda: device.probe(next(horizons), HORIZON)) / HORIZON, 2)
    return result


def best_us(call: Callable[[], object], calls: int = CALLS) -> float:
    """Return the microseconds of a call in the best of several rounds: other load on the machine only adds to them."""
    return round(min(timeit.repeat(call, number=calls, repeat=REPEATS)) / calls * 1e6, 1)

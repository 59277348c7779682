"""Benchmarks of virtual time: steps made one by one, a fleet that makes equal steps at once, and a fleet's day."""

import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from serving.scenario.scenario import Scenario
from serving.simulation.node import Outcome, VirtualObserver
from serving.simulation.play import play
from serving.simulation.simulator import Simulator
from serving.types import Request, StepRecord
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable

BATCH, OUTPUT, MOST_SEQS = 16, 512, 64
FLEET = {"devices": 4, "requests": 20_000, "rate_per_s": 80.0, "prompt_tokens": 1024, "output_tokens": 128}
DAY_S, DAY_DEVICES = 86_400.0, 64


def virtual_pace(requests: int = int(FLEET["requests"])) -> dict[str, Any]:
    """Return steps per second of one device, and requests per second of four with their wall seconds, on one core.

    The one device decodes a batch of 16 plainly, by expected and by recorded choices of experts; the four have Poisson
    arrivals, round-robin.
    """
    full = [Request(str(i), 0.0, 64, OUTPUT, seed=i) for i in range(4 * BATCH)]
    one = Scenario(mode="fixed-ar", max_num_seqs=BATCH)
    steps_s, steps = _timed(full, one, leaps=False)
    traced_s, traced = _timed(full, replace(one, residency="trace"), leaps=False)
    at_s = np.cumsum(np.random.default_rng(0).exponential(1 / FLEET["rate_per_s"], requests)).tolist()
    prompt, output = int(FLEET["prompt_tokens"]), int(FLEET["output_tokens"])
    crowd = [Request(str(i), at, prompt, output, seed=i) for i, at in enumerate(at_s)]
    fleet = replace(one, devices=int(FLEET["devices"]), router="round-robin")
    wall_s, fleet_steps = _timed(crowd, replace(fleet, max_num_seqs=MOST_SEQS, max_queue=requests), leaps=True)
    return {
        "steps_per_s_analytic": round(steps / steps_s),
        "steps_per_s_trace": round(traced / traced_s),
        "requests_per_s": round(requests / wall_s),
        "fleet": FLEET | {"requests": requests, "wall_s": round(wall_s, 3), "steps": fleet_steps},
    }


class Counts(VirtualObserver):
    """Counts steps and requests."""

    def __init__(self) -> None:
        self.steps = self.requests = 0

    def on_step(self, record: StepRecord) -> None:
        self.steps += record.steps

    def on_finish(self, flight: Outcome) -> None:
        self.requests += 1


def day_pace(requests: int) -> dict[str, Any]:
    """Simulate a day of a fleet; return its wall seconds, and the most MiB of memory that this process has had.

    There are four times as many requests at the day's peak as in its trough. Nothing is kept of ended requests.
    """
    day = {
        "arrivals": {"kind": "diurnal", "mean_per_s": requests / DAY_S, "peak_to_trough": 4},
        "prompt": {"kind": "lognormal", "mean": 300, "cv": 1.0},
        "output": {"kind": "exponential", "mean": 150},
        "requests": requests,
    }
    counts, began_s = Counts(), time.perf_counter()
    play(workload_of(WorkloadTable(day, Path("day"))), Scenario(devices=DAY_DEVICES, mode="fixed-ar"), observer=counts)
    return {
        "devices": DAY_DEVICES,
        "requests": counts.requests,
        "steps": counts.steps,
        "wall_s": round(time.perf_counter() - began_s, 1),
        "most_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _timed(requests: list[Request], scenario: Scenario, leaps: bool) -> tuple[float, int]:
    """Return the wall seconds, and the steps made in them."""
    simulated = Simulator(scenario, leaps)
    began_s = time.perf_counter()
    _, records = simulated.serve(requests)
    return time.perf_counter() - began_s, sum(record.steps for record in records)

"""How fast virtual time goes: steps made one by one, and requests of a fleet whose equal steps are made at once."""

import time
from typing import Any

import numpy as np

from serving.flow import Request
from serving.scenario import Scenario
from serving.simulated import Simulated

BATCH, OUTPUT = 16, 512
FLEET = {"devices": 4, "requests": 20_000, "rate_per_s": 80.0, "prompt_tokens": 1024, "output_tokens": 128}


def virtual_pace(requests: int = int(FLEET["requests"])) -> dict[str, Any]:
    """Steps per second of one device with a batch of 16 that decodes plainly, on one core; and requests per second of
    four devices under Poisson arrivals, round-robin, with the wall seconds that all of them take."""
    full = [Request(str(i), 0.0, 64, OUTPUT, seed=i) for i in range(4 * BATCH)]
    steps_s, steps = _timed(full, devices=1, max_num_seqs=BATCH, leaps=False)
    at_s = np.cumsum(np.random.default_rng(0).exponential(1 / FLEET["rate_per_s"], requests)).tolist()
    prompt, output = int(FLEET["prompt_tokens"]), int(FLEET["output_tokens"])
    crowd = [Request(str(i), at, prompt, output, seed=i) for i, at in enumerate(at_s)]
    wall_s, fleet_steps = _timed(crowd, devices=int(FLEET["devices"]), max_num_seqs=64, leaps=True)
    return {
        "steps_per_s_analytic": round(steps / steps_s),
        "requests_per_s": round(requests / wall_s),
        "fleet": FLEET | {"requests": requests, "wall_s": round(wall_s, 2), "steps": fleet_steps},
    }


def _timed(requests: list[Request], devices: int, max_num_seqs: int, leaps: bool) -> tuple[float, int]:
    """Wall seconds, and the steps that were made in them."""
    scenario = Scenario(mode="fixed-ar", max_num_seqs=max_num_seqs, devices=devices, router="round-robin")
    simulated = Simulated(scenario, leaps)
    began = time.perf_counter()
    _, records = simulated.serve(requests)
    return time.perf_counter() - began, sum(record.steps for record in records)

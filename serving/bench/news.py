"""Benchmark of news: how soon devices and their schedulers hear of a request that has come, and what misses a step.

The default scenario at its own speed, and users as people would try it with; then beside a program that keeps one core
busy.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from serving.bench.servers import Servers
from serving.load.options import LoadOptions
from serving.load.run import run_load
from serving.process.run_folder import run_folder
from serving.telemetry.flight_log import read_flight_log
from serving.telemetry.step_log import read_step_log

USERS, DEVICES, EDGES = 64, 4, (1, 2)
DURATION_S, QUICK_S = 25.0, 10.0
WORKLOAD = """
duration_s = {duration_s}
prompt = 150
output = 100
[arrivals]
kind = "closed"
users = {users}
think_s = {{ kind = "exponential", mean = 1 }}
ramp_s = {ramp_s}
"""
# The users come within this share of the time.
RAMP = 0.2


def news(servers: Servers, quick: bool) -> Iterator[dict[str, Any]]:
    """Yield, by edges (one within the engine core, or several beside it) and whether a core is busy otherwise, the real
    milliseconds from the edge's stamp of a request until devices could see that it had come (`board`) and until the
    scheduler had it, and the arrivals that missed a step for it."""
    for edges in EDGES:
        for busy in (False, True):
            about = {"users": USERS, "devices": DEVICES, "edges": edges, "busy_core": busy}
            yield about | _measured(servers, edges, busy, QUICK_S if quick else DURATION_S)


def _measured(servers: Servers, edges: int, busy: bool, duration_s: float) -> dict[str, Any]:
    with run_folder() as folder:
        steps, flights, workload = folder / "steps.jsonl", folder / "flights.jsonl", folder / "users.toml"
        workload.write_text(WORKLOAD.format(duration_s=duration_s, users=USERS, ramp_s=duration_s * RAMP))
        options = ("--edges", str(edges), "--step-log", str(steps), "--flight-log", str(flights))
        with servers.default(DEVICES, *options) as child, _busy_core(busy):
            _load(child.http_url, workload)
        records, ended = read_step_log(steps), read_flight_log(flights)
    board_s = (each.posted_s - each.arrival_s for each in ended if each.posted_s is not None)
    scheduler_s = [late_s for record in records for late_s in record.news_s]
    slips = {"arrivals": len(scheduler_s), "slips": sum(record.slips for record in records)}
    return slips | _quantiles_ms("board", board_s) | _quantiles_ms("scheduler", scheduler_s)


def _quantiles_ms(name: str, seconds: Iterable[float]) -> dict[str, float]:
    late_ms = 1e3 * np.array(list(seconds))
    if not late_ms.size:
        raise RuntimeError(f"No request is known to have come to the {name}.")
    return {f"{name}_p{q}_ms": round(float(np.percentile(late_ms, q)), 2) for q in (50, 99)}


def _load(url: str, workload: Path) -> None:
    """Load a server. Raise RuntimeError unless all requests complete."""
    summary = uvloop.run(run_load(LoadOptions(url=url, workload=workload))).summary
    if summary.failed:
        raise RuntimeError(f"{summary.failed} requests failed: {summary.errors}")


@contextmanager
def _busy_core(wanted: bool) -> Iterator[None]:
    """Keep a core busy meanwhile, if that is `wanted`."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        try:
            yield
        finally:
            program.kill()

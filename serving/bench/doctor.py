"""`foreserve doctor`: what this machine can emulate in real time, what it lacks, and why.

Streams are estimated: what a token costs was measured on the machine of README.md, and a scheduler's decisions, in
Python like all of it, tell how much faster or slower this one is.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles
from typing import Any, NamedTuple

from rich.console import Console

from serving.bench.host_checks import HostCheck, cores, host_checks
from serving.bench.scheduler import decide_us
from serving.host_pace import LATENESS_LIMIT
from serving.presentation.table import Table
from serving.process.process_priority import become_realtime, wake_on_time
from serving.token_source.cpu_type import cpu_dtype

# Microseconds of processor time on the machine of README.md, whose decisions took `DECISION_US`: of a token at the edge
# over HTTP, in the client, and of recorded text; of a device's step of batch 16; of a token that vLLM makes, on one
# core, by the number type that a model runs in. They are of the runs whose streams stand there.
DECISION_US = 51.5
EDGE_US, CLIENT_US, RECORDED_US, STEP_US, STEP_BATCH = 30.0, 10.0, 2.0, 462.0, 16
MADE_US = {"float32": 202.0, "bfloat16": 154.0}
# Of the processors' time, as releases come in bursts: beyond it tokens come late.
FULL = 0.7
STEPS_MS = (10, 20, 50, 100)
WAITS, WAIT_S = 300, 0.002


class StreamEstimate(NamedTuple):
    """Streams that this machine can serve in real time, of which each gets a token every `step_ms`; client included."""

    step_ms: float
    recorded: int
    made: int


class Diagnosis(NamedTuple):
    """What was found: the checks, how fast Python is here (1: as on the machine of README.md), by how much waits of
    2 ms are late (seconds), and the streams."""

    checks: list[HostCheck]
    pace: float
    late_p50_s: float
    late_p99_s: float
    streams: list[StreamEstimate]


def diagnosis() -> Diagnosis:
    """Look at this machine, for some two seconds."""
    pace = DECISION_US / decide_us()
    late_s = _late_s()
    streams = [estimate(step_ms, pace, cores()) for step_ms in STEPS_MS]
    return Diagnosis(host_checks(), pace, median(late_s), quantiles(late_s, n=100)[-1], streams)


def estimate(step_ms: float, pace: float, processors: int) -> StreamEstimate:
    """Return the streams at a step's length; `pace`: how fast a processor is."""
    per_s = 1000 / step_ms
    shared_us = EDGE_US + CLIENT_US + STEP_US / STEP_BATCH
    room_us = FULL * 1e6 * pace
    recorded = processors * room_us / (per_s * (shared_us + RECORDED_US))
    # vLLM makes tokens on one core, beside all else.
    made_us = MADE_US[cpu_dtype()]
    made = min(room_us / (per_s * made_us), processors * room_us / (per_s * (shared_us + made_us)))
    return StreamEstimate(step_ms, int(recorded), int(made))


def to_json(found: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as plain values."""
    rows = {name: [each._asdict() for each in getattr(found, name)] for name in ("checks", "streams")}
    return found._asdict() | rows


def show(found: Diagnosis, console: Console) -> None:
    """Print the diagnosis, and for what will not do, why and what helps."""
    rows = [["ok" if check.ok else "lacks", check.what, check.found] for check in found.checks]
    console.print(Table(["", "here", ""], rows, words=range(3)))
    for check in found.checks:
        if not check.ok:
            console.print(f"{check.what}: {check.advice}")
    shortest_ms = found.late_p99_s / LATENESS_LIMIT * 1e3
    console.print(
        f"A device's wait ends {found.late_p50_s * 1e3:.2f} ms late (p50), {found.late_p99_s * 1e3:.2f} ms (p99): "
        f"steps of less than {shortest_ms:.0f} ms will be more than {LATENESS_LIMIT:.0%} late at times."
    )
    about = f"Python is {found.pace:.2f} times as fast as on the machine of serving/bench/README.md"
    console.print(f"{about}. In real time, about:")
    cells = [[f"{each.step_ms:g} ms", f"{each.recorded:,}", f"{each.made:,}"] for each in found.streams]
    console.print(Table(["a token every", "streams, recorded text", "made by vLLM"], cells))
    console.print(
        "Several streams a device, client included; `--text auto` takes recorded text where vLLM has no time."
    )
    console.print("For more: `--speed 0.5` gives twice the streams; `foreserve bench` measures what is estimated here.")


def _late_s() -> list[float]:
    """Return by how much waits end after what was asked for, on a thread that waits as a device's does: of real-time
    priority, where there is that."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_waits).result()


def _waits() -> list[float]:
    wake_on_time()
    become_realtime()
    late, due_s = [], time.perf_counter()
    for _ in range(WAITS):
        due_s = max(due_s + WAIT_S, time.perf_counter())
        time.sleep(max(0.0, due_s - time.perf_counter()))
        late.append(time.perf_counter() - due_s)
    return late

"""Benchmark of metrics, in process: the cost of a step, of its tokens, and of a scrape."""

from typing import Any

from prometheus_client import CollectorRegistry

from serving.api.http_metrics import written
from serving.bench.device_model import best_us
from serving.clock import VirtualClock
from serving.cluster.node import Node, State
from serving.device.device_spec import DeviceSpec
from serving.flight import Flight, take
from serving.reports.policy_comparison import mixed, run
from serving.scenario.scenario import Scenario
from serving.telemetry.metrics import Metrics, ServedModel
from serving.types import Chunk, Request, StepRecord

BATCH, DEVICES, CALLS = 16, 8, 2000


def metrics_cost() -> dict[str, Any]:
    """Return the microseconds of a step and of its 16 tokens, and their share of the time of such a step on the device;
    and the milliseconds of a scrape of eight devices that have been in all modes."""
    scenario = Scenario(mode="tau", tau=8, max_num_seqs=BATCH)
    metrics, registry = _metrics(scenario)
    _, records = run(scenario, mixed(60, seed=1, rate_per_s=float("inf")))
    for device in range(DEVICES):
        for record in records:
            metrics.on_step(_of(record, device))
    full = [record for record in records if record.batch == BATCH and record.phase == "decode"]
    flights = [Flight(None, Request(str(i), 0.0, 100, 99), 0, first_s=1.0, last_s=1.0) for i in range(BATCH)]
    step_us = best_us(lambda: metrics.on_step(full[0]), CALLS)
    news = [(flight, Chunk(flight.request.id, 0, [1])) for flight in flights]
    tokens_us = best_us(lambda: metrics.on_tokens(take(0, news, 2.0)), CALLS)
    return {
        "batch": BATCH,
        "step_us": step_us,
        "tokens_us": tokens_us,
        "share_of_step": round((step_us + tokens_us) / 1e6 / min(record.latency_s for record in full), 5),
        "scrape_ms": round(best_us(lambda: written(registry), 10) / 1e3, 1),
        "scrape_devices": DEVICES,
    }


def _metrics(scenario: Scenario) -> tuple[Metrics, CollectorRegistry]:
    registry, spec = CollectorRegistry(), DeviceSpec.of(scenario, scenario.members[0])
    served = ServedModel("m", 4096, 16, scenario.slo)
    metrics = Metrics(registry, served, VirtualClock())
    device_limits = spec.device_limits(spec.load())
    for device in range(DEVICES):
        metrics.on_change(Node(device, spec, device_limits, None, None, None, State.SERVING))
        metrics.on_begin(Flight(None, Request(f"on {device}", 0.0, 100, 99), device, started_s=0.0))
    return metrics, registry


def _of(record: StepRecord, device: int) -> StepRecord:
    return StepRecord(**{name: getattr(record, name) for name in record.__struct_fields__} | {"device": device})

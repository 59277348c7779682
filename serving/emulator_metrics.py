"""The metrics of what only an emulator knows, made from step records; `metrics.py` has those that vLLM has too."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from device_model.step import Energy, Traffic
from serving.cluster import State
from serving.flow import StepRecord

# Steps of fast hardware take milliseconds; vLLM's own buckets begin at 10 ms (ITL) and 300 ms (phases).
FINE_S = (0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2)
LATENESS_S = (1e-5, 3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
BATCH = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@cache
def of(metric: Any, *labels: str) -> Any:
    """A metric's child. The library's own way there takes ten times as long, and a step updates thirty."""
    return metric.labels(*labels)


class EmulatorMetrics:
    """What only an emulator knows. `_seconds` are emulated, but for lateness, which is the host's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        step = ["device", "mode", "phase"]
        self.latency = self._histogram("step_latency_seconds", "Modelled latency of a step.", FINE_S, step)
        self.batch = self._histogram("batch_size", "Sequences in a step.", BATCH, step)
        self.pacing = self._histogram(
            "pacing_error_seconds", "Real seconds by which a device released a step after its instant.", LATENESS_S
        )
        self.delivery = self._histogram(
            "delivery_delay_seconds", "Real seconds from a release's instant to its client's stream.", LATENESS_S
        )
        self.underruns = self._counter("underruns", "Tokens that a device had to release and vLLM had not made.")
        self.slips = self._counter("arrival_slips", "Arrivals that missed a step because news of them came late.")
        self.unrouted = self._counter("unrouted_tokens", "Tokens whose experts a traced cache had to guess.")
        self.energy = self._counter("energy_joules", "Modelled energy, by component.", ["component"])
        self.traffic = self._counter("tier_bytes", "Modelled traffic, by memory tier.", ["tier"])
        self.modes = self._counter("mode_steps", "Steps in a mode, by the reason for it.", ["mode", "reason"])
        self.moved = self._counter("kv_moved_tokens", "Tokens of KV cache spilled to LPDDR, or fetched.", ["direction"])
        self.swaps = self._counter("expert_swaps", "Times that HB was given the experts of other topics.")
        self.lookups = self._counter("expert_lookups", "Reads of an expert by a step.")
        self.hits = self._counter("expert_hits", "Reads of an expert that HB held.")
        self.busy = self._counter("busy_seconds", "Emulated seconds in which the device worked.")
        self.tokens = self._counter("released_tokens", "Tokens released to clients.")
        self.hit_rate = Gauge(
            "foreserve_hb_hit_rate",
            "Share of the last step's expert reads that HB held.",
            ["device"],
            registry=registry,
        )
        self.restarts = Counter(
            "foreserve_actor_restarts",
            "Devices (with their schedulers) and token sources that came back.",
            ["actor"],
            registry=registry,
        )
        self.device = Gauge(
            "foreserve_device",
            "1 for the state in which a device is, of all those in which it has been.",
            ["device", "hardware", "state"],
            registry=registry,
        )
        self.fault_active = Gauge(
            "foreserve_fault_active", "Faults that a device has now, by kind.", ["device", "kind"], registry=registry
        )
        self.faults = self._counter("faults", "Faults that have come.", ["kind"])
        self._hot: dict[int, Any] = {}

    def set_info(self, **labels: str) -> None:
        """What is emulated, and how fast."""
        info = Gauge("foreserve_info", "What this emulator emulates.", list(labels), registry=self._registry)
        info.labels(**labels).set(1)

    def on_step(self, record: StepRecord) -> None:
        """A device made a step."""
        device = str(record.device)
        labels = (device, record.mode, record.phase)
        of(self.latency, *labels).observe(record.latency_s)
        of(self.batch, *labels).observe(record.batch)
        of(self.pacing, device).observe(record.late_real_s)
        of(self.underruns, device).inc(record.underruns)
        of(self.slips, device).inc(record.slips)
        of(self.unrouted, device).inc(record.unrouted)
        of(self.busy, device).inc(record.latency_s)
        of(self.modes, device, record.mode, record.reason).inc()
        of(self.swaps, device).inc(record.swaps)
        for direction, tokens in (("spilled", record.spilled_tokens), ("fetched", record.fetched_tokens)):
            if tokens:
                of(self.moved, device, direction).inc(tokens)
        of(self.lookups, device).inc(record.expert_lookups)
        of(self.hits, device).inc(record.expert_hits)
        if record.expert_lookups:
            of(self.hit_rate, device).set(record.expert_hits / record.expert_lookups)
        for component, joules in zip(Energy._fields, record.energy_j, strict=True):
            of(self.energy, device, component.removesuffix("_j")).inc(joules)
        for tier, moved in zip(Traffic._fields, record.traffic_bytes, strict=True):
            of(self.traffic, device, tier.removesuffix("_bytes")).inc(moved)

    def on_tokens(self, device: int, tokens: int) -> None:
        """A device's tokens went to their client."""
        self._hot[device].inc(tokens)

    def on_delivery(self, device: int, delay_s: float) -> None:
        """A release was written to its clients' streams, `delay_s` real seconds after its instant."""
        of(self.delivery, str(device)).observe(max(0.0, delay_s))

    def on_restart(self, actor: str) -> None:
        """An actor died and came back."""
        of(self.restarts, actor).inc()

    def begin(self, device: int) -> None:
        """Series of a device, from the start."""
        self._hot[device] = self.tokens.labels(str(device))
        self._begin(str(device))

    def on_state(self, device: int, hardware: str, state: str) -> None:
        """A device is in another state."""
        gauges = [self.device] if state != State.GONE else [self.device, self.fault_active]
        for gauge in gauges:
            for sample in next(iter(gauge.collect())).samples:
                if sample.labels["device"] == str(device):
                    gauge.labels(**sample.labels).set(0)
        self.device.labels(str(device), hardware, state).set(1)

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        """A fault came over a device, or is over."""
        of(self.fault_active, str(device), kind).inc(1 if begins else -1)
        of(self.faults, str(device), kind).inc(begins)

    def _begin(self, device: str) -> None:
        for metric in (self.pacing, self.delivery, self.underruns, self.slips, self.tokens, self.busy, self.lookups):
            metric.labels(device)
        for component in Energy._fields:
            self.energy.labels(device, component.removesuffix("_j"))

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(f"foreserve_{name}", text, ["device", *labels], registry=self._registry)

    def _histogram(
        self, name: str, text: str, buckets: Sequence[float], labels: Iterable[str] = ("device",)
    ) -> Histogram:
        extra = (0.3, 0.5, 1.0, 2.0, 5.0, 10.0) if buckets is FINE_S else ()
        return Histogram(f"foreserve_{name}", text, list(labels), buckets=(*buckets, *extra), registry=self._registry)

"""Every Prometheus metric, in one place, made from step records and flights alone.

Request-level metrics carry vLLM's names, labels and buckets (theirs kept, finer ones added), so that vLLM's
dashboards work; they describe the emulated device, in emulated seconds. What only an emulator knows is `foreserve_...`.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from vllm.v1.engine import FinishReason
from vllm.v1.metrics.buckets import histogram_buckets

from device_model.step import Energy, Traffic
from serving.cluster import Node, State
from serving.flight import Flight
from serving.flow import StepRecord

# Steps of fast hardware take milliseconds; vLLM's own buckets begin at 10 ms (ITL) and 300 ms (phases).
FINE_S = (0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2)
LATENESS_S = (1e-5, 3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
REJECTIONS = ("max_num_queued_reqs", "requests_per_min", "tokens_per_min", "ttft")
BATCH = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def finer(family: str) -> list[float]:
    """vLLM's buckets of a family, with finer ones between."""
    return sorted({*histogram_buckets(family), *FINE_S})


@cache
def of(metric: Any, *labels: str) -> Any:
    """A metric's child. The library's own way there takes ten times as long, and a step updates thirty."""
    return metric.labels(*labels)


class RequestMetrics:
    """vLLM's request-level metrics for the emulated devices; `engine` is the device's index."""

    def __init__(self, registry: CollectorRegistry, model: str, max_model_len: int) -> None:
        self._registry = registry
        self._model = model
        tokens = histogram_buckets("request_tokens", max_model_len)
        latency = finer("request_latency")
        self.running = self._gauge("num_requests_running", "Requests in the devices' batches.")
        self.waiting = self._gauge("num_requests_waiting", "Requests waiting to be processed.")
        self.waiting_by_reason = self._gauge(
            "num_requests_waiting_by_reason", "Waiting requests by reason.", ["reason"]
        )
        self.kv_usage = self._gauge("kv_cache_usage_perc", "Share of the emulated KV cache in use, 0 to 1.")
        self.preemptions = self._counter("num_preemptions", "Preemptions.")
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens processed.")
        self.generation_tokens = self._counter("generation_tokens", "Tokens generated.")
        self.success = self._counter("request_success", "Requests finished, by reason.", ["finished_reason"])
        self.rejections = Counter(
            "vllm:admission_rejections",
            "Requests turned away, by reason.",
            ["model_name", "reason"],
            registry=registry,
        )
        self.ttft = self._histogram("time_to_first_token_seconds", finer("time_to_first_token"))
        self.itl = self._histogram("inter_token_latency_seconds", finer("inter_token_latency"))
        self.tpot = self._histogram("request_time_per_output_token_seconds", finer("inter_token_latency"))
        self.e2e = self._histogram("e2e_request_latency_seconds", latency)
        self.queue = self._histogram("request_queue_time_seconds", latency)
        self.inference = self._histogram("request_inference_time_seconds", latency)
        self.prefill = self._histogram("request_prefill_time_seconds", latency)
        self.decode = self._histogram("request_decode_time_seconds", latency)
        self.prompt_length = self._histogram("request_prompt_tokens", tokens)
        self.generation_length = self._histogram("request_generation_tokens", tokens)
        self.max_tokens = self._histogram("request_params_max_tokens", tokens)
        self.max_generation = self._histogram("request_max_num_generation_tokens", tokens)
        self.params_n = self._histogram("request_params_n", histogram_buckets("request_params_n"))
        self.counted = {
            "drafts": self._counter("spec_decode_num_drafts", "Sequences' steps in which they drafted."),
            "drafted": self._counter("spec_decode_num_draft_tokens", "Tokens drafted, of each longest path."),
            "accepted": self._counter("spec_decode_num_accepted_tokens", "Draft tokens that were accepted."),
            "queried_tokens": self._counter("prefix_cache_queries", "Prompt tokens looked for in the KV cache."),
            "cached_tokens": self._counter("prefix_cache_hits", "Prompt tokens that were there."),
        }
        self.iteration_tokens = self._histogram("iteration_tokens_total", histogram_buckets("iteration_tokens"))
        # Looked up once, because they are used with every token.
        self._hot: dict[int, tuple[Any, Any]] = {}

    def begin(self, device: int) -> None:
        """Series of a device, from the start: a rate over a counter that appears with its first event misses it."""
        engine = str(device)
        self._hot[device] = (self.generation_tokens.labels(self._model, engine), self.itl.labels(self._model, engine))
        self._begin(engine)

    def on_tokens(self, flight: Flight, tokens: int, gap_s: float | None) -> None:
        """Tokens came out of a request, `gap_s` after the last; what comes at once is one output, as in vLLM."""
        generated, gaps = self._hot[flight.device]
        generated.inc(tokens)
        if gap_s == 0:
            return
        if gap_s is not None:
            gaps.observe(gap_s)
            return
        engine = str(flight.device)
        of(self.prompt_tokens, self._model, engine).inc(flight.request.prompt_tokens)
        of(self.ttft, self._model, engine).observe(flight.last_s - flight.request.arrival_s)

    def on_finish(self, flight: Flight, reason: str, n: int) -> None:
        """A request ended, for `reason`; it was one of `n` that its client asked for at once."""
        labels = (self._model, str(flight.device))
        of(self.success, *labels, reason).inc()
        request, made = flight.request, len(flight.tokens)
        of(self.prompt_length, *labels).observe(request.prompt_tokens)
        of(self.generation_length, *labels).observe(made)
        of(self.max_generation, *labels).observe(made)
        of(self.max_tokens, *labels).observe(request.max_tokens)
        of(self.params_n, *labels).observe(n)
        if flight.first_s is None:
            return
        started = flight.started_s if flight.started_s is not None else request.arrival_s
        of(self.e2e, *labels).observe(flight.last_s - request.arrival_s)
        of(self.queue, *labels).observe(started - request.arrival_s)
        of(self.prefill, *labels).observe(flight.first_s - started)
        of(self.decode, *labels).observe(flight.last_s - flight.first_s)
        of(self.inference, *labels).observe(flight.last_s - started)
        if made > 1:
            of(self.tpot, *labels).observe((flight.last_s - flight.first_s) / (made - 1))

    def on_step(self, record: StepRecord, kv_capacity_tokens: int) -> None:
        """A device made a step."""
        labels = (self._model, str(record.device))
        of(self.running, *labels).set(record.batch)
        of(self.waiting, *labels).set(record.waiting)
        of(self.waiting_by_reason, *labels, "capacity").set(record.waiting)
        of(self.kv_usage, *labels).set(record.kv_tokens / kv_capacity_tokens)
        of(self.preemptions, *labels).inc(record.preemptions)
        of(self.iteration_tokens, *labels).observe(record.new_tokens + record.accepted)
        for name, counter in self.counted.items():
            if count := getattr(record, name):
                of(counter, *labels).inc(count)

    def on_idle(self, device: int) -> None:
        """A device has nothing left to do."""
        for gauge in (self.running, self.waiting, self.kv_usage):
            gauge.labels(self._model, str(device)).set(0)
        of(self.waiting_by_reason, self._model, str(device), "capacity").set(0)

    def on_rejection(self, reason: str) -> None:
        """A request was turned away."""
        of(self.rejections, self._model, reason).inc()

    def set_cache_config(self, block_size: int, blocks: int, devices: int) -> None:
        """The emulated KV cache, as inference gateways look for it."""
        names = ["model_name", "engine", "block_size", "num_gpu_blocks"]
        info = Gauge("vllm:cache_config_info", "The emulated KV cache.", names, registry=self._registry)
        for device in range(devices):
            info.labels(self._model, str(device), str(block_size), str(blocks)).set(1)

    def _begin(self, engine: str) -> None:
        self.on_idle(int(engine))
        for metric in (
            *self.counted.values(),
            self.preemptions,
            self.prompt_tokens,
            self.generation_tokens,
            self.ttft,
            self.itl,
            self.e2e,
        ):
            metric.labels(self._model, engine)
        for reason in REJECTIONS:
            self.rejections.labels(self._model, reason)
        for reason in FinishReason:
            self.success.labels(self._model, engine, str(reason))

    def _gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
        return Gauge(f"vllm:{name}", text, ["model_name", "engine", *labels], registry=self._registry)

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(f"vllm:{name}", text, ["model_name", "engine", *labels], registry=self._registry)

    def _histogram(self, name: str, buckets: Sequence[float]) -> Histogram:
        text = f"{name.replace('_', ' ').capitalize()} of the emulated device"
        text += ", in emulated seconds." if name.endswith("seconds") else "."
        return Histogram(
            f"vllm:{name}", text, ["model_name", "engine"], buckets=sorted(buckets), registry=self._registry
        )


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


class Metrics:
    """Both, behind the events that they are made from."""

    def __init__(self, registry: CollectorRegistry, served: tuple[str, int]) -> None:
        """`served`: the model's name and its context in tokens."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.requests = RequestMetrics(registry, *served)
        self.emulator = EmulatorMetrics(registry)
        self._kv_capacity_tokens: dict[int, int] = {}
        self.on_finish = self.requests.on_finish
        self.on_idle = self.requests.on_idle
        self.on_rejection = self.requests.on_rejection
        self.on_delivery = self.emulator.on_delivery
        self.on_restart = self.emulator.on_restart
        self.on_fault = self.emulator.on_fault

    def on_change(self, node: Node) -> None:
        """A device has joined, or is in another state or condition."""
        if node.index not in self._kv_capacity_tokens:
            self.requests.begin(node.index)
            self.emulator.begin(node.index)
        self._kv_capacity_tokens[node.index] = node.figures.kv_capacity_tokens
        self.emulator.on_state(node.index, str(node.emulated.member), str(node.state))
        if not node.up:
            self.on_idle(node.index)

    def on_tokens(self, flight: Flight, tokens: int, gap_s: float | None) -> None:
        """Tokens of a request came out, `gap_s` after those before them (None: its first)."""
        self.requests.on_tokens(flight, tokens, gap_s)
        self.emulator.on_tokens(flight.device, tokens)

    def on_step(self, record: StepRecord) -> None:
        """A device made a step."""
        self.requests.on_step(record, self._kv_capacity_tokens[record.device])
        self.emulator.on_step(record)

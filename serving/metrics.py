"""Every Prometheus metric, in one place, made from step records and flights alone.

Request-level metrics carry vLLM's names, labels and buckets (theirs kept, finer ones added), so that vLLM's
dashboards work; they describe the emulated device, in emulated seconds. What only an emulator knows is `foreserve_...`
(`emulator_metrics.py`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from vllm.v1.engine import FinishReason
from vllm.v1.metrics.buckets import histogram_buckets

from serving.cluster import Node
from serving.emulator_metrics import FINE_S, EmulatorMetrics, of
from serving.flight import Flight
from serving.flow import StepRecord

REJECTIONS = ("max_num_queued_reqs", "requests_per_min", "tokens_per_min", "ttft")


def finer(family: str) -> list[float]:
    """vLLM's buckets of a family, with finer ones between."""
    return sorted({*histogram_buckets(family), *FINE_S})


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

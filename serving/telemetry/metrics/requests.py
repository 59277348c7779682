"""Request metrics as clients see them, under vLLM's names, labels and buckets (finer ones added), in emulated seconds.

So vLLM's dashboards work, and so does whatever picks endpoints by vLLM's metrics. `engine` is the device's index.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from serving.flight import Flight, TokenNews
from serving.refusals import OVERLOAD, Reason
from serving.telemetry.metrics.families import Counters, Gauges, Histograms, Labels
from serving.telemetry.metrics.in_flight import InFlight
from serving.token_source.vllm_metrics import DEVICE_CACHE, FINISH_REASONS, histogram_buckets
from serving.types import StepRecord

# Steps of fast hardware take milliseconds; vLLM's own buckets begin at 10 ms (ITL) and 300 ms (phases).
FINE_S = (0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2)
# vLLM's words for where a prompt's tokens come from.
COMPUTED, CACHED = "local_compute", "local_cache_hit"


def finer(family: str) -> list[float]:
    """vLLM's buckets of a family, with finer ones between."""
    return [*histogram_buckets(family), *FINE_S]


class DeviceLoad(NamedTuple):
    """The numbers of a device's running and waiting requests."""

    running: int
    waiting: int


NO_LOAD = DeviceLoad(0, 0)
Read = Callable[[], Mapping[Labels, float]]


class RequestMetrics:
    """vLLM's request-level metrics for the emulated devices."""

    def __init__(self, registry: CollectorRegistry, model: str, max_model_len: int, in_flight: InFlight) -> None:
        self._registry = registry
        self._model, self._max_model_len = model, max_model_len
        self._labels: dict[int, Labels] = {}
        self._last: dict[int, DeviceLoad] = {}
        self._gone: set[int] = set()
        self.in_flight = in_flight
        self._first: Counter[Labels] = Counter()
        self._make_histograms(max_model_len)
        self.running = self._level("num_requests_running", "Requests in the devices' batches.", read=self._running)
        self.waiting = self._level(
            "num_requests_waiting", "Requests waiting to be processed: those without a first step.", read=self._waiting
        )
        self.waiting_by_reason = self._level(
            "num_requests_waiting_by_reason", "Waiting requests by reason.", "reason", read=self._by_reason
        )
        self.kv_usage = self._level("kv_cache_usage_perc", "Share of the emulated KV cache in use, 0 to 1.")
        self.preemptions = self._total("num_preemptions", "Preemptions.")
        self.prompt_tokens = self._total("prompt_tokens", "Prompt tokens processed.")
        self.prompt_cached = self._total("prompt_tokens_cached", "Prompt tokens that were in the KV cache.")
        self.prompt_sources = self._total("prompt_tokens_by_source", "Prompt tokens by source.", "source")
        self.cached_sources = self._total(
            "prompt_tokens_cached_by_source", "Prompt tokens that were in the KV cache, by its tier.", "source"
        )
        self.generation_tokens = self._total("generation_tokens", "Tokens generated.")
        self.success = self._total("request_success", "Requests finished, by reason.", "finished_reason")
        self.rejections = Counters(
            registry, "vllm:admission_rejections", "Requests turned away, by reason.", ["model_name", "reason"]
        )
        self.counted = {
            "preemptions": self.preemptions,
            "drafts": self._total("spec_decode_num_drafts", "Sequences' steps in which they drafted."),
            "drafted": self._total("spec_decode_num_draft_tokens", "Tokens drafted, of each longest path."),
            "accepted": self._total("spec_decode_num_accepted_tokens", "Draft tokens that were accepted."),
            "queried_tokens": self._total("prefix_cache_queries", "Prompt tokens looked for in the KV cache."),
            "cached_tokens": self._total("prefix_cache_hits", "Prompt tokens that were there."),
        }
        self.accepted_at = self._total(
            "spec_decode_num_accepted_tokens_per_pos", "Draft tokens accepted, by position in the draft.", "position"
        )
        self.cache_config = Gauges(
            registry,
            "vllm:cache_config_info",
            "The emulated KV cache.",
            [
                "model_name",
                "engine",
                "block_size",
                "num_gpu_blocks",
                "kv_cache_size_tokens",
                "kv_cache_max_concurrency",
            ],
        )

    def _make_histograms(self, max_model_len: int) -> None:
        self._histograms: list[Histograms] = []
        tokens, latency = histogram_buckets("request_tokens", max_model_len), finer("request_latency")
        self.ttft = self._tallies("time_to_first_token_seconds", finer("time_to_first_token"))
        self.itl = self._tallies("inter_token_latency_seconds", finer("inter_token_latency"))
        self.tpot = self._tallies("request_time_per_output_token_seconds", finer("inter_token_latency"))
        self.e2e = self._tallies("e2e_request_latency_seconds", latency)
        self.queue = self._tallies("request_queue_time_seconds", latency)
        self.inference = self._tallies("request_inference_time_seconds", latency)
        self.prefill = self._tallies("request_prefill_time_seconds", latency)
        self.decode = self._tallies("request_decode_time_seconds", latency)
        self.prompt_length = self._tallies("request_prompt_tokens", tokens)
        self.prompt_computed = self._tallies("request_prefill_kv_computed_tokens", tokens)
        self.generation_length = self._tallies("request_generation_tokens", tokens)
        self.max_tokens = self._tallies("request_params_max_tokens", tokens)
        self.max_generation = self._tallies("request_max_num_generation_tokens", tokens)
        self.params_n = self._tallies("request_params_n", histogram_buckets("request_params_n"))
        self.request_preemptions = self._tallies(
            "request_num_preemptions", histogram_buckets("request_num_preemptions")
        )
        self.iteration_tokens = self._tallies("iteration_tokens_total", histogram_buckets("iteration_tokens"))

    def begin(self, device: int) -> None:
        """Create a device's series at the start: a rate misses a counter's first event otherwise."""
        labels = self._labels[device] = (self._model, str(device))
        for total in (*self.counted.values(), self.prompt_tokens, self.prompt_cached, self.generation_tokens):
            total.values[labels] += 0
        for source in (COMPUTED, CACHED):
            self.prompt_sources.values[(*labels, source)] += 0
        self.cached_sources.values[(*labels, DEVICE_CACHE)] += 0
        for tallies in self._histograms:
            tallies.of(labels)
        for rejection in OVERLOAD:
            self.rejections.values[(self._model, rejection)] += 0
        for reason in FINISH_REASONS:
            self.success.values[(*labels, reason)] += 0
        self.on_idle(device)

    def loads(self) -> dict[int, DeviceLoad]:
        """Return the running and waiting (not begun, or preempted) requests of each device that is not gone. They are
        counted from those in flight: a device that stands still makes no step that could tell."""
        unbegun = Counter(flight.device for flight in self.in_flight.flights if flight.started_s is None)
        loads = {}
        for device in self._labels.keys() - self._gone:
            total, last = self.in_flight.on(device), self._last.get(device, NO_LOAD)
            waiting = min(total, max(unbegun[device], last.waiting))
            loads[device] = DeviceLoad(total - waiting, waiting)
        return loads

    def labels_of(self, device: int) -> Labels:
        """Return the labels of a device."""
        return self._labels[device]

    def on_cache(self, device: int, block_tokens: int, blocks: int) -> None:
        """Record a device's KV cache, as inference gateways look for it; it changes with the device's condition. The
        concurrency is that of requests as long as the model's longest."""
        self._gone.discard(device)
        self._forget_cache(device)
        tokens = block_tokens * blocks
        sizes = block_tokens, blocks, tokens, round(tokens / self._max_model_len, 4)
        self.cache_config.values[(*self._labels[device], *map(str, sizes))] = 1

    def forget(self, device: int) -> None:
        """Drop what tells how full a device is, which is gone: to whoever chooses endpoints it would look idle. What
        it counted stays until `end`, so that its last counts are scraped."""
        self._gone.add(device)
        self._forget_cache(device)
        self.kv_usage.values.pop(self._labels[device], None)

    def end(self, device: int) -> None:
        """Forget a device that is gone, as its series end."""
        labels = self._labels.pop(device)
        self._gone.discard(device)
        self._first.pop(labels, None)

    def _forget_cache(self, device: int) -> None:
        found = self.cache_config.values
        for labels in [labels for labels in found if labels[1] == str(device)]:
            del found[labels]

    def on_tokens(self, news: TokenNews) -> None:
        """Record tokens of requests."""
        labels = self._labels[news.device]
        self.generation_tokens.values[labels] += news.tokens
        if news.gaps_s:
            itl = self.itl.of(labels)
            # Requests that decode together wait for their tokens equally long.
            for gap_s, times in news.gaps_s.items():
                itl.observe(gap_s, times)
        if news.overdue and news.first:
            # Their step was told of when they were not there.
            self.iteration_tokens.of(labels).observe(len(news.first))
        for flight in news.first:
            self._first[labels] += not news.overdue
            self._count_prompt(labels, flight)
            self.ttft.of(labels).observe(flight.ttft_s)

    def on_finish(self, flight: Flight, reason: str) -> None:
        """Record that a sequence ended, for `reason`; and its request, if it was the last of those that its client
        asked for at once: vLLM counts `n`, and the longest of them, once a request."""
        labels = self._labels[flight.device]
        self.success.values[(*labels, reason)] += 1
        request, made = flight.request, len(flight.tokens)
        self.prompt_length.of(labels).observe(request.prompt_tokens)
        self.prompt_computed.of(labels).observe(request.prompt_tokens - flight.cached)
        self.generation_length.of(labels).observe(made)
        self.max_tokens.of(labels).observe(request.max_tokens)
        if flight.choices.end(made):
            self.max_generation.of(labels).observe(flight.choices.longest)
            self.params_n.of(labels).observe(flight.choices.n)
        self.request_preemptions.of(labels).observe(flight.preemptions)
        if flight.first_s is None:
            return
        started = flight.started_s if flight.started_s is not None else request.arrival_s
        self.e2e.of(labels).observe(flight.last_s - request.arrival_s)
        self.queue.of(labels).observe(started - request.arrival_s)
        self.prefill.of(labels).observe(flight.first_s - started)
        self.decode.of(labels).observe(flight.last_s - flight.first_s)
        self.inference.of(labels).observe(flight.last_s - started)
        if made > 1:
            self.tpot.of(labels).observe(flight.tpot_s)

    def on_step(self, record: StepRecord, kv_capacity_tokens: int) -> None:
        """Record that a device made a step."""
        labels = self._labels[record.device]
        self._last[record.device] = DeviceLoad(record.batch, record.waiting)
        if record.device not in self._gone:
            # A step that was under way when its device lost memory still held more than there is now.
            self.kv_usage.values[labels] = min(1.0, record.kv_tokens / kv_capacity_tokens)
        # A step that ends a prompt gives a token beside those that it computes.
        self.iteration_tokens.of(labels).observe(record.new_tokens + record.accepted + self._first.pop(labels, 0))
        for name, total in self.counted.items():
            if count := getattr(record, name):
                total.values[labels] += count
        if record.accepted_by:
            self._count_positions(labels, record.accepted_by)

    def _count_prompt(self, labels: Labels, flight: Flight) -> None:
        """Count a finished prompt, and what of it was cached when it began."""
        tokens = flight.request.prompt_tokens
        cached = min(tokens, flight.cached)
        self.prompt_tokens.values[labels] += tokens
        self.prompt_cached.values[labels] += cached
        self.prompt_sources.values[(*labels, CACHED)] += cached
        self.prompt_sources.values[(*labels, COMPUTED)] += tokens - cached
        self.cached_sources.values[(*labels, DEVICE_CACHE)] += cached

    def _count_positions(self, labels: Labels, accepted_by: list[int]) -> None:
        """Count, for each draft position, the sequences that had it and all positions before accepted."""
        left = sum(accepted_by)
        for position, had_no_more in enumerate(accepted_by[:-1]):
            left -= had_no_more
            self.accepted_at.values[(*labels, str(position))] += left

    def on_idle(self, device: int) -> None:
        """Record that a device has nothing left to do."""
        self._last.pop(device, None)
        if device not in self._gone:
            self.kv_usage.values[self._labels[device]] = 0

    def on_refusal(self, reason: Reason) -> None:
        """Count a refused request."""
        self.rejections.values[(self._model, reason)] += 1

    def _running(self) -> dict[Labels, float]:
        return {self._labels[device]: float(load.running) for device, load in self.loads().items()}

    def _waiting(self) -> dict[Labels, float]:
        return {self._labels[device]: float(load.waiting) for device, load in self.loads().items()}

    def _by_reason(self) -> dict[Labels, float]:
        """Return waiting requests by vLLM's reasons; none is ever deferred here."""
        capacity = {(*labels, "capacity"): count for labels, count in self._waiting().items()}
        return capacity | {(*labels, "deferred"): 0.0 for *labels, _ in capacity}

    def _level(self, name: str, text: str, *labels: str, read: Read | None = None) -> Gauges:
        return Gauges(self._registry, f"vllm:{name}", text, ["model_name", "engine", *labels], read)

    def _total(self, name: str, text: str, *labels: str) -> Counters:
        return Counters(self._registry, f"vllm:{name}", text, ["model_name", "engine", *labels])

    def _tallies(self, name: str, bounds: Sequence[float] | Iterable[float]) -> Histograms:
        text = f"{name.replace('_', ' ').capitalize()} of the emulated device"
        text += ", in emulated seconds." if name.endswith("seconds") else "."
        made = Histograms(self._registry, f"vllm:{name}", text, ["model_name", "engine"], bounds)
        self._histograms.append(made)
        return made

"""Service metrics by SLO class: attainment, goodput, queues and rejections."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry

from serving.flight import Flight
from serving.refusals import OVERLOAD, Reason
from serving.scenario.slo import NO_CLASS, OWN_TARGETS, SloClass, counted_under
from serving.telemetry.metrics.families import Counters, Gauges, Labels
from serving.telemetry.metrics.in_flight import InFlight
from serving.types import NEVER

NO_TOPIC = "unknown"
MET, MISSED = "true", "false"
TARGETS = ("ttft", "tpot")
TEXTS = ("vllm", "recorded")
RECENT = 256  # requests, whose latencies a status tells


class ServiceMetrics:
    """Labels are bounded: classes are those of the scenario, and what has none, or no topic, goes by one name."""

    def __init__(
        self,
        registry: CollectorRegistry,
        classes: Mapping[str, SloClass],
        in_flight: InFlight,
        now: Callable[[], float],
    ) -> None:
        """`now`: the emulated instant."""
        self._in_flight, self._now = in_flight, now
        self._seen: set[Labels] = set()
        self._classes = [*classes, NO_CLASS, OWN_TARGETS]
        self.recent: deque[tuple[float, float]] = deque(maxlen=RECENT)
        self.requests = Counters(
            registry,
            "foreserve_slo_requests",
            "Requests that ended, by whether they met every target they had; those without any did.",
            ["slo_class", "topic", "met"],
        )
        self.tokens = Counters(
            registry, "foreserve_slo_tokens", "Tokens of requests that ended, by the same.", ["slo_class", "met"]
        )
        self.texts = Counters(
            registry,
            "foreserve_text_requests",
            "Requests that were taken on, by where their text comes from: vllm, or recorded.",
            ["text"],
        )
        for text in TEXTS:
            self.texts.values[(text,)] += 0
        self.misses = Counters(
            registry, "foreserve_slo_misses", "Requests that missed a target.", ["slo_class", "target"]
        )
        self.rejections = Counters(registry, "foreserve_rejections", "Requests turned away.", ["slo_class", "reason"])
        self.targets = Gauges(
            registry, "foreserve_slo_target_seconds", "What a class is promised.", ["slo_class", "target"]
        )
        self.queue = Gauges(
            registry,
            "foreserve_queue_requests",
            "Requests that have not begun, by topic and SLO class.",
            ["device", "topic", "slo_class"],
            self.waiting_now,
        )
        self.oldest = Gauges(
            registry,
            "foreserve_queue_oldest_seconds",
            "For how long, in emulated seconds, the oldest of them has waited.",
            ["device"],
            self.oldest_now,
        )
        for name, slo in classes.items():
            self._begin(name, slo)
        self._begin(NO_CLASS, SloClass(NO_CLASS))

    def on_begin(self, flight: Flight) -> None:
        """Record an admitted request."""
        self.texts.values[(TEXTS[flight.recorded is not None],)] += 1
        slo, topic = class_of(flight), flight.request.topic or NO_TOPIC
        # Its ends have series from now on: a rate misses a counter's first event.
        for met in (MET, MISSED):
            self.requests.values[(slo, topic, met)] += 0
            self.tokens.values[(slo, met)] += 0
        for target in TARGETS:
            self.misses.values[(slo, target)] += 0

    def on_finish(self, flight: Flight, reason: str) -> None:
        """Record a request's end. One whose client left counts as neither met nor missed; a failed one has missed its
        promise."""
        if reason == "abort":
            return
        slo, missed = class_of(flight), missed_by(flight)
        for target in missed:
            self.misses.values[(slo, target)] += 1
        met = MISSED if missed or reason == "error" else MET
        self.requests.values[(slo, flight.request.topic or NO_TOPIC, met)] += 1
        self.tokens.values[(slo, met)] += len(flight.tokens)
        if flight.first_s is not None:
            self.recent.append((flight.ttft_s, flight.tpot_s))

    def forget(self, device: int) -> None:
        """Drop the queue of a device that is gone."""
        self._seen = {labels for labels in self._seen if labels[0] != str(device)}

    def names(self) -> list[str]:
        """Return the SLO classes with series: all but those that no request was ever in."""
        used = {labels[0] for labels in (*self.requests.values, *self.rejections.values)}
        return [name for name in self._classes if name in used]

    def on_refusal(self, reason: Reason, slo: str) -> None:
        """Record that a request of a class ("" for none) was turned away."""
        name = slo or NO_CLASS
        # Beside it, so that its share of all is known also where none of its class was ever taken on.
        self.requests.values[(name, NO_TOPIC, MET)] += 0
        self.rejections.values[(name, reason)] += 1

    def _begin(self, name: str, slo: SloClass) -> None:
        """Create a class's series at the start: a rate misses a counter's first event otherwise."""
        for met in (MET, MISSED):
            self.requests.values[(name, NO_TOPIC, met)] += 0
            self.tokens.values[(name, met)] += 0
        for reason in OVERLOAD:
            self.rejections.values[(name, reason)] += 0
        for target, seconds in zip(TARGETS, (slo.ttft_s, slo.tpot_s), strict=True):
            self.misses.values[(name, target)] += 0
            if seconds < NEVER:
                self.targets.values[(name, target)] = seconds

    def _waiting(self) -> Iterable[Flight]:
        return (flight for flight in self._in_flight.flights if flight.started_s is None)

    def waiting_now(self) -> dict[Labels, float]:
        """Return the waiting requests by device, topic and class."""
        counts: Counter[Labels] = Counter(
            (str(f.device), f.request.topic or NO_TOPIC, class_of(f)) for f in self._waiting()
        )
        # Whoever has waited once is 0 from then on, and not gone.
        self._seen |= counts.keys()
        return {labels: float(counts[labels]) for labels in sorted(self._seen)}

    def oldest_now(self) -> dict[Labels, float]:
        """For how long the oldest of a device has waited."""
        now = self._now()
        oldest: dict[Labels, float] = {(labels[0],): 0.0 for labels in self._seen}
        for flight in self._waiting():
            labels = (str(flight.device),)
            oldest[labels] = max(oldest.get(labels, 0.0), now - flight.request.arrival_s)
        return oldest


def class_of(flight: Flight) -> str:
    """Return the class under which a request is counted."""
    return counted_under(flight.slo, flight.request.ttft_s, flight.request.tpot_s)


def missed_by(flight: Flight) -> list[str]:
    """Return the targets that a request missed; without a first token it missed that one."""
    missed = []
    if flight.ttft_s > flight.request.ttft_s:
        missed.append("ttft")
    if flight.tpot_s > flight.request.tpot_s:
        missed.append("tpot")
    return missed

"""Every Prometheus metric, made from step records and flights alone.

`requests.py` has what clients see, under vLLM's names; `service.py` what they were promised; `steps.py` and
`devices.py` what only an emulator knows, as `foreserve_...`. Times are emulated seconds, but for the host's lateness.
"""

from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from serving.clock import VirtualClock, WallClock
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver
from serving.flight import Flight, TokenNews
from serving.refusals import Refusal
from serving.scenario.slo import SloClass
from serving.telemetry.metrics.dcgm import Dcgm
from serving.telemetry.metrics.departures import Departures
from serving.telemetry.metrics.devices import DeviceMetrics, device_of, labels_of
from serving.telemetry.metrics.families import Counters, FamilyRegistry, Gauges
from serving.telemetry.metrics.host import HostMetrics
from serving.telemetry.metrics.in_flight import InFlight
from serving.telemetry.metrics.recent_load import RecentLoad
from serving.telemetry.metrics.requests import RequestMetrics
from serving.telemetry.metrics.service import ServiceMetrics
from serving.telemetry.metrics.steps import StepMetrics
from serving.types import DroppedMessages, StepRecord


class ServedModel(NamedTuple):
    """The served model's name, context (tokens), KV block size (tokens) and SLO classes."""

    model: str
    max_model_len: int
    block_tokens: int = 1
    classes: Mapping[str, SloClass] = {}  # never written to


class Metrics(EdgeObserver):
    """All metrics, updated by events of requests, steps and devices."""

    def __init__(self, registry: CollectorRegistry, served: ServedModel, clock: WallClock | VirtualClock) -> None:
        self._registry = registry = FamilyRegistry(registry)
        self._block_tokens, self.now = served.block_tokens, clock.now
        self.about: dict[str, str] = {}
        Counters(
            registry, "foreserve_emulated_seconds", "Emulated seconds since the start.", (), lambda: {(): clock.now()}
        )
        Gauges(
            registry, "foreserve_speed", "Emulated seconds that a real one should have.", (), lambda: {(): clock.speed}
        )
        self._in_flight = InFlight()
        self.requests = RequestMetrics(registry, served.model, served.max_model_len, self._in_flight)
        self.recent_load = RecentLoad(self.requests)
        self.service = ServiceMetrics(registry, served.classes, self._in_flight, clock.now)
        self.steps = StepMetrics(registry)
        self.devices = DeviceMetrics(registry, clock.now, self._in_flight)
        self.host = HostMetrics(registry, self.steps, self.requests, lambda: clock.speed)
        # It asks its collector for names, by which a scraper may pick.
        self.dcgm = CollectorRegistry(auto_describe=True)
        self.dcgm.register(Dcgm(self.devices, self.energy_j))
        # Of the devices that have series: what is still told of one whose series have ended counts nowhere.
        self._kv_capacity_tokens: dict[int, int] = {}
        self._departures = Departures()

    def look(self, now_s: float) -> None:
        """End the series of devices that are gone for long, and take stock of the host's pace, at a real instant."""
        for device in self._departures.due(now_s):
            self._end(device)
        self.host.look(now_s)

    def _end(self, device: int) -> None:
        """End all series of a device: under its index another one begins anew, which `rate` takes for a restart."""
        self.host.leave_out(lambda: self._registry.drop(labels_of(str(device))))
        for part in (self.requests, self.recent_load, self.steps):
            part.end(device)
        del self._kv_capacity_tokens[device]

    def energy_j(self, device: int) -> float:
        """Return all joules that a device has drawn, in steps and between them."""
        return self.steps.energy_j(device) + self.devices.idle_j(device)

    def set_info(self, **labels: str) -> None:
        """Set the info metric: the devices emulated, and the speed."""
        info = Gauges(self._registry, "foreserve_info", "What this emulator emulates.", list(labels))
        info.values[tuple(labels.values())] = 1
        self.about = labels

    def on_change(self, node: Node) -> None:
        if node.index not in self._kv_capacity_tokens:
            self.requests.begin(node.index)
            self.steps.begin(node.index, device_of(node.spec).tiers)
        capacity = self._kv_capacity_tokens[node.index] = node.device_limits.kv_capacity_tokens
        self.requests.on_cache(node.index, self._block_tokens, capacity // self._block_tokens)
        self.devices.on_change(node)
        self._departures.note(node.index, node.gone)
        if not node.up:
            self.on_idle(node.index)
        if node.state is State.GONE:
            self.requests.forget(node.index)
            self.service.forget(node.index)

    def on_begin(self, flight: Flight) -> None:
        self._in_flight.put(flight)
        self.service.on_begin(flight)

    def on_move(self, flight: Flight) -> None:
        self._in_flight.put(flight)

    def on_tokens(self, news: TokenNews) -> None:
        if news.device not in self._kv_capacity_tokens:
            return
        self.requests.on_tokens(news)
        self.recent_load.on_tokens(news)
        self.steps.on_tokens(news)

    def on_finish(self, flight: Flight) -> None:
        self.requests.on_finish(flight, flight.finish)
        self.service.on_finish(flight, flight.finish)
        self._in_flight.remove(flight)
        self._look(flight.device)

    def on_delivery(self, device: int, late_real_s: float) -> None:
        if device in self._kv_capacity_tokens:
            self.steps.on_delivery(device, late_real_s)

    def on_restart(self, actor: str) -> None:
        self.devices.on_restart(actor)

    def on_dropped(self, receiver: str, dropped: DroppedMessages) -> None:
        self.devices.on_dropped(receiver, dropped.count)

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        self.devices.on_fault(device, kind, begins)

    def on_refusal(self, refusal: Refusal, flight: Flight | None) -> None:
        # One that could never be taken on as it is tells nothing of the load.
        if refusal.for_now:
            self.requests.on_refusal(refusal.reason)
            self.service.on_refusal(refusal.reason, refusal.slo)

    def on_step(self, record: StepRecord) -> None:
        if record.device not in self._kv_capacity_tokens:
            return
        self.requests.on_step(record, self._kv_capacity_tokens[record.device])
        self.steps.on_step(record)
        self.devices.on_step(record)
        # A step that was under way when its last client left tells of a batch that is no more.
        self._look(record.device)

    def _look(self, device: int) -> None:
        """Update whether a device has work left."""
        if not self._in_flight.on(device):
            self.on_idle(device)

    def on_idle(self, device: int) -> None:
        """Record that a device has nothing left to do."""
        self.requests.on_idle(device)
        self.devices.on_idle(device)

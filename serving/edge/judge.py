"""The edge's admission, made from a scenario, and the follower that keeps its forecast up to date."""

from collections.abc import Sequence

from serving.admission.expected_device import expect
from serving.admission.rate_limits import KeyNames
from serving.admission.request_options import OptionReader
from serving.admission.reservations import Admission
from serving.admission.rules import AdmissionRules
from serving.clock import Clock
from serving.cluster.cluster import Cluster
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver
from serving.flight import Flight
from serving.scenario.scenario import Scenario
from serving.topics.names import NAMES
from serving.types import Chunk, Release


def admission_of(scenario: Scenario, keys: Sequence[bytes]) -> Admission:
    """Return a scenario's admission; `keys` are the digests of the API keys that limits apply to."""
    return Admission(
        OptionReader(scenario.slo, scenario.default_slo, NAMES),
        KeyNames(keys),
        # Of the context vLLM takes care.
        AdmissionRules.of(scenario, None, scenario.early_rejection),
        scenario.speed,
    )


class Follower(EdgeObserver):
    """Reports admitted requests to the admission, and device events to its forecast."""

    def __init__(self, admission: Admission, cluster: Cluster, clock: Clock) -> None:
        self._admission, self._cluster, self._clock = admission, cluster, clock
        self._forecast, self._departures = admission.rules.forecast, admission.rules.departures

    def on_begin(self, flight: Flight) -> None:
        self._forecast.on_submit(flight.device, flight.request, self._clock.now())

    def on_move(self, flight: Flight) -> None:
        self._forecast.on_submit(flight.device, flight.resumed, self._clock.now())

    def on_release(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        self._forecast.on_release((chunk for _, chunk in news), release.record)

    def on_finish(self, flight: Flight) -> None:
        self._admission.end(flight.request, len(flight.tokens))
        self._departures.note(self._clock.now())

    def on_change(self, node: Node) -> None:
        """Forecast for a device only while it serves."""
        if node.state is State.SERVING:
            expect(self._forecast, node.index, node.spec, self._cluster.limits(node.device_limits))
        else:
            self._forecast.close(node.index)

"""The edge's admission, made from a scenario, and its observer of requests that leave."""

from collections.abc import Callable, Sequence

from serving.admission.request_options import OptionReader
from serving.admission.reservations import Admission
from serving.admission.rules import AdmissionRules
from serving.cluster.observer import EdgeObserver
from serving.flight import Flight
from serving.scenario.scenario import Scenario
from serving.security.key_names import KeyNames
from serving.topics.names import NAMES


def admission_of(scenario: Scenario, keys: Sequence[bytes]) -> Admission:
    """Return a scenario's admission; `keys` are the digests of the API keys that limits apply to."""
    return Admission(
        OptionReader(scenario.slo, scenario.default_slo, NAMES),
        KeyNames(keys),
        # Of the context vLLM takes care.
        AdmissionRules.of(scenario, None, scenario.early_rejection),
        scenario.speed,
    )


class DepartureFeed(EdgeObserver):
    """Tells the admission rules which requests have left the queue; `now` is the emulated instant.

    A request without a call came by a front end that has none judged: its key was charged nothing, and gets nothing
    back.
    """

    def __init__(self, rules: AdmissionRules, now: Callable[[], float]) -> None:
        self._rules, self._now = rules, now

    def on_finish(self, flight: Flight) -> None:
        if flight.call is None:
            self._rules.departures.note(self._now())
        else:
            self._rules.leave(flight.request, flight.made, self._now())

"""Admission in virtual time: refuses requests by the rules of a server's edge."""

from collections.abc import Collection

from serving.admission.rules import AdmissionRules
from serving.admission_request import AdmissionRequest
from serving.refusals import Refusal
from serving.scenario.scenario import Scenario
from serving.simulation.node import Outcome, VirtualObserver
from serving.types import NEVER, Request


class VirtualAdmission(VirtualObserver):
    """Judges requests by `rules`; `keys` are the server's own. Counts the requests in flight."""

    def __init__(self, rules: AdmissionRules, keys: Collection[str]) -> None:
        self._rules, self._keys = rules, keys
        self._in_flight = 0

    def refusal(self, request: Request, now_s: float) -> Refusal | None:
        """Return the refusal of a request that arrives at `now_s`; charge its key and return None if it is admitted."""
        # Without keys of its own a server knows all clients as one.
        key = request.key if request.key in self._keys else ""
        asked = AdmissionRequest(request.prompt_tokens, request.max_tokens, key=key, ttft_s=request.ttft_s)
        return self._rules.judge(asked, self._in_flight, now_s)

    def on_begin(self, flight: Outcome) -> None:
        self._in_flight += 1

    def on_finish(self, flight: Outcome) -> None:
        self._in_flight -= 1
        self._rules.leave(flight.request, flight.made, flight.last_s)


def forecasts(scenario: Scenario, asked: set[str]) -> bool:
    """Tell whether any request of the `asked` classes could be turned away because it would be late."""
    named = asked | {scenario.default_slo}
    return scenario.early_rejection and any(each.ttft_s < NEVER for name, each in scenario.slo.items() if name in named)

"""Admission in virtual time: refuses requests by the rules of a server's edge."""

from serving.admission.rules import AdmissionRules
from serving.admission_request import AdmissionRequest
from serving.refusals import Refusal
from serving.scenario.scenario import Scenario
from serving.simulation.node import Outcome, VirtualObserver
from serving.types import NEVER, Request


class VirtualAdmission(VirtualObserver):
    """Judges requests by `rules`, their keys being those that the server knows. Counts the requests in flight."""

    def __init__(self, rules: AdmissionRules) -> None:
        self._rules = rules
        self._in_flight = 0

    def refusal(self, request: Request, now_s: float) -> Refusal | None:
        """Return the refusal of a request that arrives at `now_s`; charge its key and return None if it is admitted."""
        asked = AdmissionRequest(request.prompt_tokens, request.max_tokens, key=request.key, ttft_s=request.ttft_s)
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

"""Admission in virtual time: refuses requests by the rules of a server's edge."""

from serving.admission.expected_device import expect
from serving.admission.refusals import Reason
from serving.admission.rules import AdmissionRequest, AdmissionRules
from serving.device.device_spec import DeviceSpec
from serving.scenario.scenario import Scenario
from serving.scheduler.config import Limits
from serving.types import NEVER, Release, Request


class VirtualEdge:
    """Judges requests. Report requests, releases and devices to it in the order in which they come."""

    def __init__(self, scenario: Scenario, context: int, forecasts: bool) -> None:
        """`context` limits a request's tokens, prompt and output. With `forecasts`, refuse whoever would wait for
        longer than its SLO class promises."""
        self._keys, self._forecasts = scenario.api_keys, forecasts
        self._rules = AdmissionRules.of(scenario, context, forecasts)
        self._in_flight = 0

    def refusal(self, request: Request, now_s: float) -> Reason | None:
        """Return why a request that arrives at `now_s` is refused; charge its key and return None if it is admitted."""
        # Without keys of its own a server knows all clients as one.
        key = request.key if request.key in self._keys else ""
        asked = AdmissionRequest(request.prompt_tokens, request.max_tokens, key=key, ttft_s=request.ttft_s)
        refusal = self._rules.judge(asked, self._in_flight, now_s)
        return refusal.reason if refusal else None

    def submitted(self, device: int, request: Request, now_s: float) -> None:
        """Record that an admitted request goes to a device."""
        self._in_flight += 1
        self.moved(device, request, now_s)

    def moved(self, device: int, request: Request, now_s: float) -> None:
        """Record that a request continues at another device, with the tokens that it has had."""
        if self._forecasts:
            self._rules.forecast.on_submit(device, request, now_s)

    def released(self, release: Release) -> None:
        """Record a release of one step, or (without forecasts) of several."""
        if self._forecasts:
            self._rules.forecast.on_release(release.chunks, release.record)

    def ended(self) -> None:
        """Record that a request has all its tokens."""
        self._in_flight -= 1

    def serves(self, device: int, spec: DeviceSpec, limits: Limits) -> None:
        """Record that a device takes requests, or has changed its condition."""
        if self._forecasts:
            expect(self._rules.forecast, device, spec, limits)

    def closes(self, device: int) -> None:
        """Record that a device takes no more requests."""
        self._rules.forecast.close(device)


def forecasts(scenario: Scenario, asked: set[str]) -> bool:
    """Tell whether any request of the `asked` classes could be turned away because it would be late."""
    named = asked | {scenario.default_slo}
    return scenario.early_rejection and any(each.ttft_s < NEVER for name, each in scenario.slo.items() if name in named)

"""Who is turned away in virtual time: by the places of the queue, the limits of keys and the same forecast as at the
edge of a server (`serving.admission.rules`), in the same order."""

from serving.admission.expected_device import expect
from serving.admission.forecast import Forecast
from serving.admission.rate_limits import Limits
from serving.device.device_spec import Emulated
from serving.scenario.scenario import Scenario
from serving.scenario.slo import SloClass
from serving.scheduler.config import Limits as DeviceLimits
from serving.types import NEVER, Release, Request

FULL, LATE, TOO_LARGE, TOO_LONG = "max_num_queued_reqs", "ttft", "too_large", "too_long"
UNLIMITED = Limits(None, None)


class Gate:
    """The edge of a scenario. It is told of requests, releases and devices in the order in which they come."""

    def __init__(self, scenario: Scenario, context: int, forecasts: bool) -> None:
        """A request may have `context` tokens, prompt and output. One that `forecasts` turns away who would wait for
        longer than its SLO class promises."""
        self._scenario, self._context, self._forecasts = scenario, context, forecasts
        self._per_minute = scenario.key_requests_per_min, scenario.key_tokens_per_min
        self._forecast = Forecast()
        self._by_key: dict[str, Limits] = {}
        self._in_flight = 0

    def refusal(self, request: Request, now_s: float) -> str:
        """Why a request that arrives now is turned away, in the words of metrics; "" if it is taken on, and charged for
        then."""
        tokens = request.prompt_tokens + request.max_tokens
        if tokens > self._context:
            return TOO_LONG
        if self._in_flight >= self._scenario.max_queue:
            return FULL
        limits = self._limits(request.key) if any(self._per_minute) else UNLIMITED
        if limits.tokens is not None and tokens > limits.tokens.burst:
            return TOO_LARGE
        wait_s, reason, _ = limits.wait(True, tokens, now_s)
        if wait_s > 0:
            return reason
        if self._forecasts and request.ttft_s < NEVER:
            left_s, _ = self._forecast.best(self._forecast.devices, request.prompt_tokens, now_s)
            if left_s > request.ttft_s:
                return LATE
        limits.charge(True, tokens, now_s)
        return ""

    def submitted(self, device: int, request: Request, now_s: float) -> None:
        """A request that was taken on goes to a device."""
        self._in_flight += 1
        self.moved(device, request, now_s)

    def moved(self, device: int, request: Request, now_s: float) -> None:
        """A request goes on at another device, with the tokens that it has had."""
        if self._forecasts:
            self._forecast.on_submit(device, request, now_s)

    def released(self, release: Release) -> None:
        """A device released what a step of it gave, or (without forecasts) several."""
        if not self._forecasts:
            return
        for chunk in release.chunks:
            if chunk.first == 0:
                self._forecast.on_first_token(chunk.request_id)
            if chunk.finish is not None:
                self._forecast.on_finish(chunk.request_id, chunk.first + len(chunk.tokens))
        if release.record is not None:
            self._forecast.on_step(release.record)

    def ended(self) -> None:
        """A request has all its tokens."""
        self._in_flight -= 1

    def serves(self, device: int, emulated: Emulated, limits: DeviceLimits) -> None:
        """A device takes requests, or is in another condition."""
        if self._forecasts:
            expect(self._forecast, device, emulated, limits)

    def closes(self, device: int) -> None:
        """A device takes no more requests."""
        self._forecast.close(device)

    def _limits(self, key: str) -> Limits:
        # Without keys of its own a server knows all clients as one.
        name = key if key in self._scenario.api_keys else ""
        return self._by_key.get(name) or self._by_key.setdefault(name, Limits.of(*self._per_minute))


def forecasts(scenario: Scenario, classes: dict[str, SloClass], asked: set[str]) -> bool:
    """Whether any request of the `asked` classes could be turned away because it would be late."""
    named = asked | {scenario.default_slo}
    return scenario.early_rejection and any(each.ttft_s < NEVER for name, each in classes.items() if name in named)

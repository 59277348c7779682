"""Admission rules, shared by a server's edge and virtual time.

They are checked in this order: the context, the places in the queue, the limits of the key, and (if wanted) the
forecast first token. The rules know no clock: instants are emulated, and passed in.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from serving.admission.departures import Departures
from serving.admission.forecast import Forecast
from serving.admission.rate_limits import RateLimits
from serving.admission_request import AdmissionRequest
from serving.refusals import Reason, Refusal
from serving.scenario.scenario import Scenario
from serving.types import NEVER, Request

Soonest = Callable[[], tuple[float, int]]
"""Tells the seconds until a request's first token, and the device that would have it soonest."""


@dataclass(slots=True)
class AdmissionRules:
    """Judges requests. `limits` makes the limits of a key not seen before. Without `early_rejection` no request is
    refused because of its forecast; without a `context` its length is not checked."""

    context: int | None
    max_queue: int
    limits: Callable[[], RateLimits]
    forecast: Forecast
    early_rejection: bool
    departures: Departures
    _by_key: dict[str, RateLimits] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: Scenario, context: int | None, early_rejection: bool) -> "AdmissionRules":
        """Return a scenario's rules for requests of at most `context` tokens, prompt and output."""
        limits = partial(RateLimits.of, scenario.key_requests_per_min, scenario.key_tokens_per_min)
        departures = Departures(scenario.max_queue)
        return cls(context, scenario.max_queue, limits, Forecast(), early_rejection, departures)

    def judge(
        self, asked: AdmissionRequest, taken: int, now_s: float, soonest: Soonest | None = None
    ) -> Refusal | None:
        """Return the refusal of a request that arrives when `taken` places are in use, or charge its key and return
        None. What was admitted goes on: later rounds of a beam search, a few tokens each, are charged alone.

        Its forecast is asked for only if nothing else speaks against it: by `soonest`, for whoever wants it afterwards.
        """
        refusal = None
        if not asked.continues:
            refusal = (
                self._judge_context(asked)
                or self.judge_places(asked.n, taken, now_s)
                or self._judge_limits(asked, now_s)
                or self._judge_forecast(asked, soonest or partial(self.soonest, asked, now_s))
            )
        if refusal is None:
            self.limits_of(asked.key).charge(not asked.charged, asked.tokens, now_s)
        return refusal

    def judge_places(self, n: int, taken: int, now_s: float) -> Refusal | None:
        """Return a refusal if the queue has no room for `n` sequences."""
        if n > self.max_queue:
            sentence = f"`n` is {n}, and the queue has {self.max_queue} places: ask for fewer."
            return Refusal(Reason.TOO_MANY, sentence, field="n")
        if taken + n > self.max_queue:
            sentence = f"All {self.max_queue} places of the queue are taken."
            return Refusal(Reason.QUEUE, sentence, self.departures.promise_s(now_s))
        self.departures.note_arrival(taken)
        return None

    def soonest(self, asked: AdmissionRequest, now_s: float) -> tuple[float, int]:
        """Return the forecast seconds to the request's first token, and the device."""
        devices = self.forecast.devices
        # A device that is not there is for vLLM to complain about.
        if asked.device is not None and asked.device in devices:
            devices = [asked.device]
        return self.forecast.best(devices, asked.prompt_tokens, now_s)

    def limits_of(self, key: str) -> RateLimits:
        """Return the limits of a key, which may be ""."""
        return self._by_key.get(key) or self._by_key.setdefault(key, self.limits())

    def leave(self, request: Request, made: int, now_s: float) -> None:
        """Record that an admitted request has left the queue at `now_s`, and refund the tokens that it never made."""
        self.give_back(request.key, request.max_tokens - made)
        self.departures.note(now_s)

    def give_back(self, key: str, tokens: int) -> None:
        """Refund tokens that a key was charged for and nobody generated."""
        if (limits := self._by_key.get(key)) and limits.tokens is not None:
            limits.tokens.give_back(tokens)

    def _judge_context(self, asked: AdmissionRequest) -> Refusal | None:
        tokens = asked.prompt_tokens + asked.max_tokens
        if self.context is None or tokens <= self.context:
            return None
        sentence = f"Prompt and `max_tokens` are {tokens} tokens, and the context has room for {self.context}."
        return Refusal(Reason.TOO_LONG, sentence, field="max_tokens")

    def _judge_limits(self, asked: AdmissionRequest, now_s: float) -> Refusal | None:
        limits, tokens = self.limits_of(asked.key), asked.charged + asked.tokens
        if limits.tokens is not None and tokens > limits.tokens.burst:
            sentence = (
                f"The request may take {tokens} tokens (its prompts, and for each answer `max_tokens`, which is all "
                f"that the context has room for unless it is said), and a key no more than {limits.tokens.burst:.0f} a "
                "minute: set `max_tokens`, or ask for less."
            )
            return Refusal(Reason.TOO_LARGE, sentence, field="max_tokens")
        wait_s, reason, limit = limits.wait(not asked.charged, asked.tokens, now_s)
        if wait_s > 0:
            return Refusal(reason, f"The key has reached its limit of {limit} a minute.", wait_s)
        return None

    def _judge_forecast(self, asked: AdmissionRequest, soonest: Soonest) -> Refusal | None:
        if not self.early_rejection or asked.ttft_s == NEVER:
            return None
        predicted_s = asked.waited_s + soonest()[0]
        if predicted_s <= asked.ttft_s:
            return None
        sentence = (
            f"The first token is predicted after {1000 * predicted_s:.0f} ms, and was asked for within "
            f"{1000 * asked.ttft_s:.0f} ms."
        )
        return Refusal(Reason.TTFT, sentence, predicted_s - asked.ttft_s)

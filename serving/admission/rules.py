"""Admission: which requests are taken on, for whom, and what those that are not are told.

A request is judged once its prompt is tokens, and before a response has begun, so that one that is turned away gets a
status even if it asked for a stream. What it will take up is set aside at once, until it is in flight: of many that
come together, each sees those before it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from serving.admission.forecast import Forecast
from serving.admission.rate_limits import Keys, Limits
from serving.admission.refusals import SOONEST_S, NeverAllowed, TurnedAway
from serving.admission.request_options import Wishes, WishReader
from serving.call import Call
from serving.clock import WallClock
from serving.types import Request


class Work(NamedTuple):
    """What a request would have done: `n` sequences of at most `max_tokens` each, on `device` if it is named."""

    id: str
    prompt_tokens: int
    max_tokens: int
    n: int = 1
    device: int | None = None

    @property
    def tokens(self) -> int:
        """What it is charged for: its prompt, and all that it may generate."""
        return self.prompt_tokens + self.n * self.max_tokens


@dataclass(slots=True)
class Admitted:
    """A request that was taken on: whose it is ("" if there are no keys), and what it asked for. `aside` is the name
    under which the forecast knows of it until it has `begun`; `places` in the queue are set aside for what is to come.
    """

    key: str
    wishes: Wishes
    work: Work
    aside: str = ""
    begun: bool = False
    places: int = 0


UNASKED = Admitted("", Wishes(), Work("", 0, 0), begun=True)
"""What is said of a request that no call has asked for."""


@dataclass(slots=True)
class Admission:
    """Judges requests by the limits of their keys and by what is forecast for them.

    `limits` makes the limits of a key that was not seen before. `set_aside` are places in the queue of requests that
    are taken on and not there yet. Instants are emulated, told by `clock`.
    """

    reader: WishReader
    keys: Keys
    limits: Callable[[], Limits]
    forecast: Forecast
    clock: WallClock
    early_rejection: bool = True
    _by_key: dict[str, Limits] = field(default_factory=dict)
    set_aside: int = 0
    _asides: int = 0

    def admit(self, call: Call, extra_args: Mapping[str, Any], work: Work) -> Admitted:
        """Take a request on, or raise `BadWish`, `NeverAllowed` or `TurnedAway`."""
        wishes = self.reader.read(call.headers, extra_args, call.body)
        key, now = self.keys.name_of(call), self.clock.now()
        limits = self._by_key.get(key) or self._by_key.setdefault(key, self.limits())
        try:
            self._check_limits(limits, call, work, now)
            device = self._check_forecast(call, wishes, work, now)
            limits.charge(not call.counted, work.tokens, now)
            call.counted += work.tokens
        except TurnedAway as refusal:
            refusal.slo = wishes.slo
            raise
        finally:
            call.answer |= limits.headers(now, self.clock.speed)
        self._asides += 1
        admitted = call.admitted[work.id] = Admitted(key, wishes, work, f"aside-{self._asides}", places=work.n)
        self.set_aside += work.n
        self.forecast.on_submit(device, Request(admitted.aside, now, work.prompt_tokens, work.max_tokens), now)
        call.at_end.append(lambda: self._settle(admitted))
        return admitted

    def begin(self, admitted: Admitted) -> None:
        """A sequence of a request is about to be in flight; whoever sends it there tells the forecast so."""
        self._free(admitted, min(1, admitted.places))
        if not admitted.begun:
            admitted.begun = True
            self.forecast.on_finish(admitted.aside, 0)

    def end(self, request: Request, made: int) -> None:
        """A sequence has ended with `made` tokens: it is charged for no more than those."""
        self.forecast.on_finish(request.id, made)
        self._give_back(request.key, request.max_tokens - made)

    def drop(self, admitted: Admitted, tokens: int) -> None:
        """A sequence was about to be in flight, and never was: it is not charged for what it would have generated."""
        self._give_back(admitted.key, tokens)

    def _settle(self, admitted: Admitted) -> None:
        """A call has ended: what was set aside for it and never begun is free again."""
        self._free(admitted, admitted.places)
        if not admitted.begun:
            self.begin(admitted)
            self._give_back(admitted.key, admitted.work.tokens)

    def _free(self, admitted: Admitted, places: int) -> None:
        admitted.places -= places
        self.set_aside -= places

    def _give_back(self, key: str, tokens: int) -> None:
        if (limits := self._by_key.get(key)) and limits.tokens is not None:
            limits.tokens.give_back(tokens)

    def _check_limits(self, limits: Limits, call: Call, work: Work, now_s: float) -> None:
        tokens = call.counted + work.tokens
        if limits.tokens is not None and tokens > limits.tokens.burst:
            raise NeverAllowed(
                "max_tokens",
                f"The request may take {tokens} tokens (its prompts, and for each answer `max_tokens`, which is all "
                f"that the context has room for unless it is said), and a key no more than {limits.tokens.burst:.0f} a "
                "minute: set `max_tokens`, or ask for less.",
            )
        wait_s, reason, limit = limits.wait(not call.counted, work.tokens, now_s)
        if wait_s > 0:
            raise TurnedAway(reason, f"The key has reached its limit of {limit} a minute.", wait_s / self.clock.speed)

    def _check_forecast(self, call: Call, wishes: Wishes, work: Work, now_s: float) -> int:
        """The device that would have the first token soonest."""
        devices = self.forecast.devices
        # A device that is not there is for vLLM to complain about.
        if work.device is not None and work.device in devices:
            devices = [work.device]
        left_s, device = self.forecast.best(devices, work.prompt_tokens, now_s)
        predicted_s = now_s - call.arrival_s + left_s
        if self.early_rejection and predicted_s > wishes.ttft_s:
            raise TurnedAway(
                "ttft",
                f"The first token is predicted after {1000 * predicted_s:.0f} ms, and was asked for within "
                f"{1000 * wishes.ttft_s:.0f} ms.",
                max(SOONEST_S, (predicted_s - wishes.ttft_s) / self.clock.speed),
            )
        return device

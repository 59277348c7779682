"""Requests that are taken on and not in flight yet: of many that come together, each sees those before it.

A request is judged once its prompt is tokens, and before a response has begun, so that one that is turned away gets a
status even if it asked for a stream. What it will take up is set aside at once, until it is in flight.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serving.admission.rate_limits import KeyNames
from serving.admission.refusals import Refusal
from serving.admission.request_options import OptionReader
from serving.admission.rules import AdmissionRules, Asked
from serving.call import Call
from serving.clock import WallClock
from serving.types import Request


@dataclass(slots=True)
class Admitted:
    """A request that was taken on. `aside` is the name under which the forecast knows of it until it has `begun`;
    `places` in the queue are set aside for what is to come."""

    asked: Asked
    aside: str = ""
    begun: bool = False
    places: int = 0


UNASKED = Admitted(Asked(0, 0), begun=True)
"""What is said of a request that no call has asked for."""


@dataclass(slots=True)
class Admission:
    """Takes requests on by the rules. `set_aside` are places in the queue of those that are not in flight yet."""

    reader: OptionReader
    keys: KeyNames
    rules: AdmissionRules
    clock: WallClock
    set_aside: int = 0
    _asides: int = 0

    def admit(
        self, call: Call, id: str, asked: Asked, extra_args: Mapping[str, Any], in_flight: int
    ) -> Admitted | Refusal:
        """Take a request of a call on, by vLLM's id of it, or say why not. Raises `BadWish`."""
        asked, now_s = self.reader.read(asked, call.headers, extra_args, call.body), self.clock.now()
        key, waited_s = self.keys.name_of(call), now_s - call.arrival_s
        asked = asked._replace(key=key, waited_s=waited_s, charged=call.counted)
        refusal = self.rules.judge(asked, in_flight + self.set_aside, now_s)
        call.answer |= self.rules.limits_of(key).headers(now_s, self.clock.speed)
        if refusal is not None:
            return refusal._replace(slo=asked.slo)
        call.counted += asked.tokens
        self._asides += 1
        admitted = call.admitted[id] = Admitted(asked, f"aside-{self._asides}", places=asked.n)
        self.set_aside += asked.n
        _, device = self.rules.soonest(asked, now_s)
        aside = Request(admitted.aside, now_s, asked.prompt_tokens, asked.max_tokens)
        self.rules.forecast.on_submit(device, aside, now_s)
        call.at_end.append(lambda: self._settle(admitted))
        return admitted

    def judge_places(self, n: int, in_flight: int) -> Refusal | None:
        """Refuse `n` sequences that the queue has no room for."""
        return self.rules.judge_places(n, in_flight + self.set_aside, self.clock.now())

    def begin(self, admitted: Admitted) -> None:
        """A sequence of a request is about to be in flight; whoever sends it there tells the forecast so."""
        self._free(admitted, min(1, admitted.places))
        if not admitted.begun:
            admitted.begun = True
            self.rules.forecast.on_finish(admitted.aside, 0)

    def end(self, request: Request, made: int) -> None:
        """A sequence has ended with `made` tokens: it is charged for no more than those."""
        self.rules.forecast.on_finish(request.id, made)
        self.rules.give_back(request.key, request.max_tokens - made)

    def drop(self, admitted: Admitted, tokens: int) -> None:
        """A sequence was about to be in flight, and never was: it is not charged for what it would have generated."""
        self.rules.give_back(admitted.asked.key, tokens)

    def _settle(self, admitted: Admitted) -> None:
        """A call has ended: what was set aside for it and never begun is free again."""
        self._free(admitted, admitted.places)
        if not admitted.begun:
            self.begin(admitted)
            self.rules.give_back(admitted.asked.key, admitted.asked.tokens)

    def _free(self, admitted: Admitted, places: int) -> None:
        admitted.places -= places
        self.set_aside -= places

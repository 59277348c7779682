"""Reservations of requests that are admitted and not in flight yet, so that of many at once each sees those before it.

A request is judged once its prompt is tokenized, and before its response begins, so that a refused stream still gets a
status. What it will take up is reserved at once, until it is in flight.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serving.admission.rate_limits import KeyNames
from serving.admission.refusals import Refusal
from serving.admission.request_options import OptionReader
from serving.admission.rules import AdmissionRequest, AdmissionRules
from serving.call import Call
from serving.clock import WallClock
from serving.types import Request


@dataclass(slots=True)
class Reservation:
    """An admitted request. The forecast knows it by the name `aside` until it has `begun`; `places` in the queue are
    reserved for its sequences still to come."""

    asked: AdmissionRequest
    aside: str = ""
    begun: bool = False
    places: int = 0


UNASKED = Reservation(AdmissionRequest(0, 0), begun=True)
"""What is said of a request that no call has asked for."""


@dataclass(slots=True)
class Admission:
    """Admits requests by the rules. `set_aside` counts the places reserved for requests not yet in flight."""

    reader: OptionReader
    keys: KeyNames
    rules: AdmissionRules
    clock: WallClock
    set_aside: int = 0
    _asides: int = 0

    def admit(
        self, call: Call, id: str, asked: AdmissionRequest, extra_args: Mapping[str, Any], in_flight: int
    ) -> Reservation | Refusal:
        """Admit a call's request, `id` being vLLM's, or return its refusal. Raise `InvalidOption`."""
        asked, now_s = self.reader.read(asked, call.headers, extra_args, call.body), self.clock.now()
        key, waited_s = self.keys.name_of(call), now_s - call.arrival_s
        asked = asked._replace(key=key, waited_s=waited_s, charged=call.counted)
        refusal = self.rules.judge(asked, in_flight + self.set_aside, now_s)
        call.answer |= self.rules.limits_of(key).headers(now_s, self.clock.speed)
        if refusal is not None:
            return refusal._replace(slo=asked.slo)
        call.counted += asked.tokens
        self._asides += 1
        admitted = call.admitted[id] = Reservation(asked, f"aside-{self._asides}", places=asked.n)
        self.set_aside += asked.n
        _, device = self.rules.soonest(asked, now_s)
        aside = Request(admitted.aside, now_s, asked.prompt_tokens, asked.max_tokens)
        self.rules.forecast.on_submit(device, aside, now_s)
        call.at_end.append(lambda: self._settle(admitted))
        return admitted

    def judge_places(self, n: int, in_flight: int) -> Refusal | None:
        """Return a refusal if the queue has no room for `n` sequences."""
        return self.rules.judge_places(n, in_flight + self.set_aside, self.clock.now())

    def begin(self, admitted: Reservation) -> None:
        """Convert a sequence's reservation: it is about to be in flight. The caller reports it to the forecast."""
        self._free(admitted, min(1, admitted.places))
        if not admitted.begun:
            admitted.begun = True
            self.rules.forecast.on_finish(admitted.aside, 0)

    def end(self, request: Request, made: int) -> None:
        """End a sequence that made `made` tokens: refund what its key was charged beyond those."""
        self.rules.forecast.on_finish(request.id, made)
        self.rules.give_back(request.key, request.max_tokens - made)

    def drop(self, admitted: Reservation, tokens: int) -> None:
        """Refund a sequence that was to be in flight and never was."""
        self.rules.give_back(admitted.asked.key, tokens)

    def _settle(self, admitted: Reservation) -> None:
        """Free what an ended call reserved and never began."""
        self._free(admitted, admitted.places)
        if not admitted.begun:
            self.begin(admitted)
            self.rules.give_back(admitted.asked.key, admitted.asked.tokens)

    def _free(self, admitted: Reservation, places: int) -> None:
        admitted.places -= places
        self.set_aside -= places

"""Reservations of requests that are admitted and not in flight yet, so that of many at once each sees those before it.

A request is judged once its prompt is tokenized, and before its response begins, so that a refused stream still gets a
status. What it will take up is reserved at once, until it is in flight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from serving.admission.request_options import InvalidOption, OptionReader
from serving.admission.rules import AdmissionRules
from serving.admission_request import AdmissionRequest
from serving.call import Call
from serving.refusals import Refusal
from serving.scenario.slo import counted_under
from serving.security.key_names import KeyNames
from serving.types import Request


@dataclass(slots=True)
class Admission:
    """Admits requests by the rules, on a clock that runs at `speed` emulated seconds a real one. `set_aside` counts the
    places reserved for requests not yet in flight."""

    reader: OptionReader
    keys: KeyNames
    rules: AdmissionRules
    speed: float
    set_aside: int = 0
    _asides: int = 0

    def admit(
        self, call: Call, id: str, asked: AdmissionRequest, extra_args: Mapping[str, Any], in_flight: int, now_s: float
    ) -> AdmissionRequest | Refusal:
        """Admit a call's request, `id` being vLLM's, with its options and what is reserved for it, or return its
        refusal. Raise `InvalidOption`."""
        asked = self.reader.read(asked, call.headers, extra_args, call.body)
        key, waited_s = self.keys.name_of(call), now_s - call.arrival_s
        asked = replace(asked, key=key, waited_s=waited_s, charged=call.counted, continues=call.is_later_round(id))
        soonest = cache(partial(self.rules.soonest, asked, now_s))
        refusal = self.rules.judge(asked, in_flight + self.set_aside, now_s, soonest)
        call.answer |= self.rules.limits_of(key).headers(now_s, self.speed)
        if refusal is not None:
            return refusal._replace(slo=counted_under(asked.slo, asked.ttft_s, asked.tpot_s))
        _, device = soonest()
        call.counted += asked.tokens
        self._asides += 1
        call.admitted[id] = asked
        asked.aside, asked.places = f"aside-{self._asides}", asked.n
        self.set_aside += asked.n
        aside = Request(asked.aside, now_s, asked.prompt_tokens, asked.max_tokens)
        self.rules.forecast.on_submit(device, aside, now_s)
        call.when_ended(lambda: self._settle(asked))
        return asked

    def judge_places(self, call: Call | None, n: int, in_flight: int, now_s: float) -> Refusal | None:
        """Return a refusal if the queue has no room for `n` sequences, of the class that a call has named so far."""
        refusal = self.rules.judge_places(n, in_flight + self.set_aside, now_s)
        return refusal and refusal._replace(slo=self.class_of(call))

    def class_of(self, call: Call | None) -> str:
        """Return the class under which a call is counted of which nothing more may be read; "" if it names none that
        there is."""
        try:
            asked = self.reader.read(
                AdmissionRequest(0, 0), call.headers if call else (), {}, call.body if call else {}
            )
        except InvalidOption:
            return ""
        return counted_under(asked.slo, asked.ttft_s, asked.tpot_s)

    def begin(self, admitted: AdmissionRequest, now_s: float) -> None:
        """Convert a sequence's reservation: it is in flight now. The caller reports it to the forecast, which knows a
        request for several also as one that is set aside until the last of them.

        Nothing is reserved any more where its call has ended, as one does whose text is made in the background: its key
        is charged again for what was refunded then.
        """
        if admitted.places:
            self._free(admitted, 1)
        else:
            tokens = admitted.new_prompt_tokens + admitted.max_tokens
            self.rules.limits_of(admitted.key).charge(False, tokens, now_s)

    def _settle(self, admitted: AdmissionRequest) -> None:
        """Free what an ended call reserved and never began."""
        if never_begun := admitted.places:
            self._free(admitted, never_begun)
            prompt_tokens = admitted.new_prompt_tokens if never_begun == admitted.n else 0
            self.rules.give_back(admitted.key, prompt_tokens + never_begun * admitted.max_tokens)

    def _free(self, admitted: AdmissionRequest, places: int) -> None:
        """Free places; the forecast knows a request no longer that has none."""
        admitted.places -= places
        self.set_aside -= places
        if not admitted.places:
            self.rules.forecast.on_finish(admitted.aside, 0)

"""Refusals: why a request is not admitted, as a reason for metrics and a sentence for the client."""

from enum import StrEnum
from typing import NamedTuple

from serving.types import NEVER


class Reason(StrEnum):
    """Reasons of refusals, in the words of metrics and studies."""

    QUEUE = "max_num_queued_reqs"
    TTFT = "ttft"
    REQUESTS = "requests_per_min"
    TOKENS = "tokens_per_min"
    TOO_MANY = "too_many"
    TOO_LARGE = "too_large"
    TOO_LONG = "too_long"
    INVALID = "invalid"


OVERLOAD = (Reason.QUEUE, Reason.REQUESTS, Reason.TOKENS, Reason.TTFT)
"""Those of a request that may come again later; with the others it never could be taken on as it is."""


class Refusal(NamedTuple):
    """A request, counted under the SLO class `slo` if that is known, is not taken on: not before `wait_s` emulated
    seconds if that is for now, otherwise never, because of a `field` of it."""

    reason: Reason
    sentence: str
    wait_s: float = NEVER
    field: str = ""
    slo: str = ""

    @property
    def for_now(self) -> bool:
        """Tell whether the request may come again later as it is."""
        return self.reason in OVERLOAD

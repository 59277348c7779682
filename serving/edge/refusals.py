"""Converts refusals, and failures after admission, into vLLM's exceptions."""

from http import HTTPStatus
from math import ceil

from vllm.exceptions import GracefulHTTPError, QueueOverflowError, VLLMValidationError

from serving.refusals import Reason, Refusal
from serving.types import FAILED_ON

# Clients are not to come back sooner than this, in real seconds, as an answer costs us more than it does them; but
# where a limit says exactly when they may.
SOONEST_S = 1.0
EXACT = (Reason.REQUESTS, Reason.TOKENS)
ENDING = "The server is shutting down, and ends this request with it."
"""What is told to whoever is in flight, or comes, when the server is stopped."""


class Overflow(QueueOverflowError):  # type: ignore[misc]
    """Refused for now: 429, or RESOURCE_EXHAUSTED. vLLM's own says 503; clients of OpenAI's API back off at 429."""

    def __init__(self, refusal: Refusal, speed: float) -> None:
        wait_s = refusal.wait_s / speed
        self.refusal, self.reason = refusal, refusal.reason
        self.retry_after_s = wait_s if refusal.reason in EXACT else max(SOONEST_S, wait_s)
        sentence = f"{refusal.sentence} Try again in {_told(self.retry_after_s)} s."
        GracefulHTTPError.__init__(self, sentence, HTTPStatus.TOO_MANY_REQUESTS)


class GivenUp(GracefulHTTPError):  # type: ignore[misc]
    """Admitted, and failed: 500, or INTERNAL. vLLM's own says "Internal server error" and no more. What a server that
    shuts down has not done, another one may do: 503, or UNAVAILABLE."""

    def __init__(self, why: int | str | None) -> None:
        """`why`: vLLM's number or sentence, or None. The request itself `is_cause` where the token source failed on it,
        or had no token left to choose."""
        self.is_cause = not isinstance(why, str) or why.startswith(FAILED_ON)
        sentence = why if isinstance(why, str) else "The token source could make no more tokens of this request."
        ends = sentence == ENDING
        super().__init__(sentence, HTTPStatus.SERVICE_UNAVAILABLE if ends else HTTPStatus.INTERNAL_SERVER_ERROR)


class NotEmulated(GracefulHTTPError):  # type: ignore[misc]
    """Asked of an engine, and nothing that an emulated device has: 501, or UNIMPLEMENTED."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, HTTPStatus.NOT_IMPLEMENTED)


class Invalid(VLLMValidationError):  # type: ignore[misc]
    """Refused for good: 400, or INVALID_ARGUMENT, with the name of the field."""

    def __str__(self) -> str:
        # vLLM's own adds the parameter, which the sentence names already.
        return str(self.args[0])

    @classmethod
    def of(cls, refusal: Refusal) -> "Invalid":
        """Return the exception of a request that can never be admitted."""
        return cls(refusal.sentence, parameter=refusal.field)


def exception_of(refusal: Refusal, speed: float) -> Overflow | Invalid:
    """Return a refusal's exception; `speed` converts its wait into real seconds."""
    return Overflow(refusal, speed) if refusal.for_now else Invalid.of(refusal)


def _told(seconds: float) -> str:
    return str(ceil(seconds)) if seconds > SOONEST_S else f"{max(seconds, 0.001):.3g}"

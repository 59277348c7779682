"""Refusals as vLLM's servers know them: the only place where their exceptions are made of ours."""

from http import HTTPStatus

from vllm.exceptions import GracefulHTTPError, QueueOverflowError, VLLMValidationError

from serving.admission.refusals import NeverAllowed, TurnedAway


class Overflow(QueueOverflowError):  # type: ignore[misc]
    """Not now: 429, or RESOURCE_EXHAUSTED. vLLM's own says 503; clients of OpenAI's API back off at 429."""

    def __init__(self, refusal: TurnedAway) -> None:
        GracefulHTTPError.__init__(self, str(refusal), HTTPStatus.TOO_MANY_REQUESTS)
        self.retry_after_s = refusal.retry_after_s


class GivenUp(GracefulHTTPError):  # type: ignore[misc]
    """Taken on, and failed: 500, or INTERNAL. vLLM's own says "Internal server error" and no more."""

    def __init__(self, why: str) -> None:
        super().__init__(why, HTTPStatus.INTERNAL_SERVER_ERROR)


class Invalid(VLLMValidationError):  # type: ignore[misc]
    """Not now and not later: 400, or INVALID_ARGUMENT, with the name of the field."""

    def __str__(self) -> str:
        # vLLM's own adds the parameter, which the sentence names already.
        return str(self.args[0])


class Forbidden(Invalid):
    """A request that admission never takes on."""

    def __init__(self, refusal: NeverAllowed) -> None:
        super().__init__(str(refusal), parameter=refusal.field)

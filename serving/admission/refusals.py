"""Why a request is not taken on, each reason as an exception with a sentence for whoever asked."""

from math import ceil

# Clients are not to come back sooner than this, in real seconds: an answer costs us more than it does them.
SOONEST_S = 1.0


class Refused(Exception):
    """A request is not taken on."""


class TurnedAway(Refused):
    """Not now. `reason` is the label in the metrics, `retry_after_s` are real seconds, `slo` is the request's class, if
    that is known."""

    slo = ""

    def __init__(self, reason: str, sentence: str, retry_after_s: float) -> None:
        super().__init__(f"{sentence} Try again in {_told(retry_after_s)} s.")
        self.reason, self.retry_after_s = reason, retry_after_s


class NeverAllowed(Refused):
    """Not now and not later, because of a `field` of the request."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class BadWish(NeverAllowed):
    """A request option that means nothing: `field` is that of the body, or the header."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(field, f"`{field}` {sentence}")


def _told(seconds: float) -> str:
    return str(ceil(seconds)) if seconds > SOONEST_S else f"{max(seconds, 0.001):.3g}"

"""Backoff of actors that die: the wait before each restart, and the sentences about it."""

from dataclasses import dataclass

RETRY_S = 0.1
FREE_RESTARTS = 3
LEAST_S, MOST_S = 0.5, 16.0
STEADY_S = 20.0
GIVEN_UP = 8


@dataclass(slots=True)
class Backoff:
    """The waits before a part that has failed is started again, in real seconds.

    The first `FREE_RESTARTS` come at once: somebody may have killed it. After them, each wait is twice the last one, up
    to `MOST_S`. A part that has lived for `STEADY_S` begins anew. After `GIVEN_UP` failures in a row nobody need wait
    for it any longer, though it is still tried.
    """

    failures: int = 0
    _failed_at_s: float = 0.0

    def failed(self, now_s: float) -> float:
        """Record a failure at an instant of the monotonic clock; return the seconds to wait before the restart."""
        if now_s - self._failed_at_s > STEADY_S:
            self.failures = 0
        self.failures += 1
        beyond = self.failures - FREE_RESTARTS
        wait_s = 0.0 if beyond <= 0 else min(MOST_S, LEAST_S * 2.0 ** (beyond - 1))
        self._failed_at_s = now_s + wait_s
        return wait_s

    @property
    def given_up(self) -> bool:
        """Tell whether the part has failed so often in a row that its work is better refused."""
        return self.failures >= GIVEN_UP


class Forgotten(RuntimeError):
    """An actor that was restarted, and has not been connected again yet; its supervisor is about to do that."""


def from_outside(error: BaseException | None) -> bool:
    """Tell whether an error of Ray's says that an actor is gone (its own or one that it needs), not that it failed."""
    # Imported here, so that modules that know of devices need no Ray.
    from ray.exceptions import ActorDiedError, ActorUnavailableError

    while error is not None:
        if isinstance(error, ActorDiedError | ActorUnavailableError | Forgotten):
            return True
        error = getattr(error, "cause", None)
    return False


def cause_of_deaths(part: str) -> str:
    """Return the sentence for a client whose request ends a part of the server again and again."""
    return f"The {part} failed each time that it worked on this request, and not without it: it was given up."


def given_up(part: str) -> str:
    """Return the sentence for a client that waits for a part of the server which does not come back."""
    return f"{part} has failed {GIVEN_UP} times in a row; what waited for it was given up. Try again later."


def summary(error: BaseException) -> str:
    """Return the first sentence of the last line of an error that Ray has wrapped: the one that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].partition(". ")[0].removesuffix(".") if lines else type(error).__name__

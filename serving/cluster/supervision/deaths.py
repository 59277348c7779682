"""Deaths of actors: which are no failure of their own, and the sentences about them."""

from serving.process.backoff import GIVEN_UP


class StateLost(RuntimeError):
    """An actor that was restarted, and has not been connected again yet; its supervisor is about to do that."""


def from_outside(error: BaseException | None) -> bool:
    """Tell whether an error of Ray's says that an actor is gone (its own or one that it needs), not that it failed."""
    # Imported here, so that modules that know of devices need no Ray.
    from ray.exceptions import ActorDiedError, ActorUnavailableError

    while error is not None:
        if isinstance(error, ActorDiedError | ActorUnavailableError | StateLost):
            return True
        error = getattr(error, "cause", None)
    return False


def ended_from_outside(error: BaseException) -> bool:
    """Tell whether an error of a call to an actor that starts says that something ended its process: another one may
    start. An actor that fails to start by itself would do so again."""
    return from_outside(error) and not getattr(error, "actor_init_failed", False)


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

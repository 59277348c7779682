"""What an edge in a process of its own knows of a full queue: the engine core's last word on it, for a moment.

Whoever comes within that moment is refused before a body is read, which costs everybody the least.
"""

from serving.refusals import Reason, Refusal

# Real seconds for which the core's word is taken for what it would say now.
FULL_S = 0.25


class FullQueue:
    """The last refusal for want of places. Instants are real seconds, of any clock that only goes on."""

    def __init__(self) -> None:
        self._refusal: Refusal | None = None
        self._heard_s = 0.0

    def note(self, refusal: Refusal | None, now_s: float) -> None:
        """Take note of what the core has said of one sequence: the refusal, or None, as there was a place."""
        if refusal is None:
            self._refusal = None
        elif refusal.reason is Reason.QUEUE:
            # The class is that of whoever was refused.
            self._refusal, self._heard_s = refusal._replace(slo=""), now_s

    def refusal(self, now_s: float) -> Refusal | None:
        """Return the refusal of who comes now; None if the core has refused nobody within `FULL_S`, or taken somebody
        on since."""
        return self._refusal if now_s - self._heard_s < FULL_S else None

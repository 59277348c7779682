"""Queue departures: estimate when a place in a full queue is free, from the pace at which requests have left."""

from collections import deque

# How many of the last departures tell it.
DEPARTURES = 32


class Departures:
    """The instants (emulated) at which the last requests left the queue."""

    def __init__(self, places: int) -> None:
        """`places`: the queue's capacity."""
        self._places = places
        self._seen_s: deque[float] = deque(maxlen=DEPARTURES)
        self._promised_s = 0.0

    def note(self, now_s: float) -> None:
        """Record that a request left at `now_s`."""
        self._seen_s.append(now_s)

    def note_arrival(self, taken: int) -> None:
        """Record that a request came when `taken` places were in use. Where so few were that requests leave as they
        come, and not as places become free, forget who left so far.

        Half of them tell that: a queue that wavers about its capacity stays above, and at half of it requests leave at
        half the pace of a full one, if not at the same.
        """
        if 2 * taken < self._places:
            self._seen_s.clear()
            self._promised_s = 0.0

    def promise_s(self, now_s: float) -> float:
        """Return the seconds until a place should be free for a request refused at `now_s`; 0 while too few have left
        to tell.

        Each promise is later than the last one, so that not all come back at once; none is later than the time by which
        all places will have changed hands.
        """
        seen_s = self._seen_s
        pace_s = (seen_s[-1] - seen_s[0]) / (len(seen_s) - 1) if len(seen_s) > 1 else 0.0
        latest_s = pace_s * self._places
        self._promised_s = min(max(self._promised_s, now_s) + pace_s, now_s + latest_s)
        return self._promised_s - now_s

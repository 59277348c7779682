"""How soon a place in the queue is free, told from the pace at which requests have left."""

from collections import deque

# How many of the last departures tell it.
DEPARTURES = 32


class Departures:
    """The last requests that have left. Instants are emulated."""

    def __init__(self, places: int) -> None:
        """The queue has `places`."""
        self._places = places
        self._seen_s: deque[float] = deque(maxlen=DEPARTURES)
        self._promised_s = 0.0

    def note(self, now_s: float) -> None:
        """A request has left."""
        self._seen_s.append(now_s)

    def promise_s(self, now_s: float) -> float:
        """Seconds until a place should be free for who asks now.

        Each is told a later moment than the last one, or all would come back at once, to no purpose; but none a later
        one than that by which all places will have changed hands.
        """
        seen_s = self._seen_s
        pace_s = (seen_s[-1] - seen_s[0]) / (len(seen_s) - 1) if len(seen_s) > 1 else 0.0
        latest_s = pace_s * self._places
        self._promised_s = min(max(self._promised_s, now_s) + pace_s, now_s + latest_s)
        return self._promised_s - now_s

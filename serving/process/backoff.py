"""Backoff of processes that end by themselves: the wait before each restart."""

from dataclasses import dataclass

FREE_RESTARTS = 3
LEAST_S, DOUBLINGS = 0.5, 5
MOST_S = LEAST_S * 2.0**DOUBLINGS
GIVEN_UP = 8
STEADY_S = 2.0
MOST_SOUGHT = 16
"""Failures in a row that may be steps of a search for their cause: it takes some ten to find one of hundreds."""


@dataclass(slots=True)
class Backoff:
    """The waits before a part that has failed is started again, in real seconds.

    The first `FREE_RESTARTS` come at once: somebody may have killed it. After them, each wait is twice the last one, up
    to `MOST_S`. After `GIVEN_UP` failures in a row nobody need wait for the part any longer, though it is still tried.
    The row ends with a life of `steady_s`: who kills what works can do so for ever, and it is back at once each time.
    """

    steady_s: float = STEADY_S
    failures: int = 0
    sought: int = 0
    _up_since_s: float | None = None

    def came_up(self, now_s: float) -> None:
        """Record that the part works, at an instant of the monotonic clock."""
        self._up_since_s = now_s

    def failed(self, now_s: float, is_sought: bool = False) -> float:
        """Record that the part has failed, or did not come up; return the seconds to wait before the restart.

        With `is_sought` the failure is a step of a search for its cause among the part's requests: no fault of the
        part's, up to `MOST_SOUGHT` times in a row.
        """
        if self._up_since_s is not None and now_s - self._up_since_s >= self.steady_s:
            self.failures = self.sought = 0
        self._up_since_s = None
        if is_sought and self.sought < MOST_SOUGHT:
            self.sought += 1
            return 0.0
        self.failures += 1
        beyond = self.failures - FREE_RESTARTS
        if beyond <= 0:
            return 0.0
        # What fails for a night has failed more often than a number can be doubled.
        return LEAST_S * 2.0 ** min(beyond - 1, DOUBLINGS)

    @property
    def given_up(self) -> bool:
        """Tell whether the part has failed so often in a row that its work is better refused."""
        return self.failures >= GIVEN_UP

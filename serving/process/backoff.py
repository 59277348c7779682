"""Backoff of processes that end by themselves: the wait before each restart."""

from dataclasses import dataclass

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

"""Token gaps: the inter-token latencies of a run, kept by their lengths and not one by one."""

from collections import Counter
from math import ceil, exp, floor, log

GRAIN = log(1.01)
LEAST_S = 1e-9


class TokenGaps:
    """Counts seconds from one token of a request to its next one, of those that come from `from_s` to `to_s`. Tokens
    that come at once count once."""

    def __init__(self, from_s: float, to_s: float) -> None:
        self._from_s, self._to_s = from_s, to_s
        # By their logarithms, in grains of 1 %.
        self._grains: Counter[int] = Counter()
        # When each request that has begun got a token last, wherever it is by now.
        self._last_s: dict[str, float] = {}

    def add(self, given: dict[str, int], ends_s: list[float]) -> None:
        """Add a step's tokens, or those of equal steps: the requests that were `given` some got them at `ends_s`."""
        first_s, last_s, steps = ends_s[0], ends_s[-1], len(ends_s)
        if self._from_s <= first_s <= self._to_s:
            for since_s, requests in Counter(map(self._last_s.get, given)).items():
                if since_s is not None:
                    self._count(first_s - since_s, requests)
        if steps > 1:
            step_s = (last_s - first_s) / (steps - 1) or LEAST_S
            self._count(step_s, len(given) * self._judged_steps(first_s, step_s, steps - 1))
        self._last_s.update(dict.fromkeys(given, last_s))

    def end(self, request_id: str) -> None:
        """Forget a request, which gets no more tokens."""
        self._last_s.pop(request_id, None)

    def _count(self, gap_s: float, tokens: int) -> None:
        # Instants so late that they don't tell tokens apart say nothing of what is between them.
        self._grains[round(log(max(gap_s, LEAST_S)) / GRAIN)] += tokens

    def _judged_steps(self, from_s: float, step_s: float, steps: int) -> int:
        """Return how many of equal steps from `from_s` on end in the window in which requests are judged."""
        before = max(0, ceil((self._from_s - from_s) / step_s) - 1)
        until = min(steps, (self._to_s - from_s) / step_s)
        return max(0, floor(until) - before)

    def within_s(self, share: float) -> float:
        """Return the inter-token latency that a `share` of tokens stay within, to 1 %; 0 without any."""
        # Of 100 tokens 0.55 are 55.00000000000001.
        left = round(share * self._grains.total(), 6)
        for grain, count in sorted(self._grains.items()):
            left -= count
            if left <= 0 and count:
                return exp(grain * GRAIN)
        return 0.0

    def share_within(self, limit_s: float) -> float:
        """Return the share of tokens whose inter-token latency is at most `limit_s`, to 1 %; 1 without any."""
        within = sum(count for grain, count in self._grains.items() if exp(grain * GRAIN) <= limit_s)
        return within / self._grains.total() if self._grains.total() else 1.0

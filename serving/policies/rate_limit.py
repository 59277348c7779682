"""Limits on what a key may ask for: token buckets, as OpenAI's API has them, for requests and for tokens per minute."""

from dataclasses import dataclass

MINUTE_S = 60.0


@dataclass(slots=True)
class TokenBucket:
    """Holds at most `burst`, and refills at `per_s`: what is taken of it in any `t` seconds, less what was
    given back, is at most `burst + per_s * t`. It begins full. An instant before the last one counts as that one.
    """

    per_s: float
    burst: float
    _level: float = 0.0
    _at_s: float = float("-inf")

    @staticmethod
    def per_minute(amount: float) -> "TokenBucket":
        """Make a bucket that holds a minute's worth at once, and then fills as fast as that."""
        return TokenBucket(amount / MINUTE_S, amount)

    def level(self, now_s: float) -> float:
        """Return the tokens in the bucket at `now_s`."""
        if now_s > self._at_s:
            gained = self.per_s * (now_s - self._at_s)
            self._level, self._at_s = min(self.burst, self._level + gained), now_s
        return self._level

    def wait_s(self, amount: float, now_s: float) -> float:
        """Seconds until it holds `amount`, if nobody else takes any; 0 if it does, infinite for more than `burst`."""
        if amount > self.burst:
            return float("inf")
        return max(0.0, amount - self.level(now_s)) / self.per_s

    def take(self, amount: float, now_s: float) -> None:
        """Take `amount`, of which `wait_s` said that it is there."""
        self._level = self.level(now_s) - amount

    def give_back(self, amount: float) -> None:
        """Return what was taken and not used; what does not fit is lost."""
        self._level = min(self.burst, self._level + amount)

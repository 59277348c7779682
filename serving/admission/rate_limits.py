"""Rate limits: an API key's requests and tokens per minute, and the response headers that report them."""

from dataclasses import dataclass
from math import ceil

from serving.policies.rate_limit import TokenBucket
from serving.refusals import Reason


@dataclass(slots=True)
class RateLimits:
    """The token buckets of one key; None where there is no limit."""

    requests: TokenBucket | None
    tokens: TokenBucket | None

    @staticmethod
    def of(requests_per_min: int, tokens_per_min: int) -> "RateLimits":
        """Return full buckets of a minute's worth each; 0 means no limit."""
        sizes = (requests_per_min, tokens_per_min)
        return RateLimits(*(TokenBucket.per_minute(size) if size else None for size in sizes))

    def wait(self, request: bool, tokens: int, now_s: float) -> tuple[float, Reason, str]:
        """Return the seconds until `tokens` (and a request, if `request`) are allowed, the reason for metrics, and the
        limit in words."""
        waits = [(0.0, Reason.TOKENS, "")]
        if self.tokens is not None:
            wait_s = self.tokens.wait_s(tokens, now_s)
            waits.append((wait_s, Reason.TOKENS, f"{self.tokens.burst:.0f} tokens"))
        if self.requests is not None and request:
            wait_s = self.requests.wait_s(1, now_s)
            waits.append((wait_s, Reason.REQUESTS, f"{self.requests.burst:.0f} requests"))
        return max(waits)

    def charge(self, request: bool, tokens: int, now_s: float) -> None:
        """Charge what `wait` has allowed."""
        if self.tokens is not None:
            self.tokens.take(tokens, now_s)
        if self.requests is not None and request:
            self.requests.take(1, now_s)

    def headers(self, now_s: float, speed: float) -> dict[str, str]:
        """Return OpenAI's rate limit headers; `reset` is the real time until the bucket is full."""
        said = {}
        for name, bucket in (("requests", self.requests), ("tokens", self.tokens)):
            if bucket is not None:
                said[f"x-ratelimit-limit-{name}"] = f"{bucket.burst:.0f}"
                said[f"x-ratelimit-remaining-{name}"] = f"{max(0, int(bucket.level(now_s)))}"
                said[f"x-ratelimit-reset-{name}"] = _duration(bucket.wait_s(bucket.burst, now_s) / speed)
        return said


def _duration(seconds: float) -> str:
    """Return seconds as OpenAI's headers have them: a decimal without an exponent, never too short."""
    return f"{ceil(1000 * seconds) / 1000:.3f}".rstrip("0").rstrip(".") + "s"

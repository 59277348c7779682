"""Recent load of devices, for routers that ask for it: what they generate now, and how much of prompts they had."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from serving.cluster.observer import EdgeObserver
from serving.flight import TokenNews
from serving.telemetry.metrics.requests import RequestMetrics

# As in the servicers of other engines: tokens of the last seconds, hits among the last prompts.
WINDOW_S = 2.0
PROMPTS = 64


class RankLoad(NamedTuple):
    """The load of a device. `kv_share` is the share of its KV cache in use, `tokens_per_s` counts real seconds,
    `hit_share` is of the tokens of its last prompts; `waiting_tokens` are those of prompts that wait, less what may be
    expected in the prefix cache."""

    running: int
    waiting: int
    kv_share: float
    tokens_per_s: float
    hit_share: float
    waiting_tokens: int


@dataclass(slots=True)
class _Recent:
    generated: deque[tuple[float, int]] = field(default_factory=deque)
    prompts: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=PROMPTS))

    def trim(self, now_s: float) -> None:
        while self.generated and now_s - self.generated[0][0] > WINDOW_S:
            self.generated.popleft()


class RecentLoad(EdgeObserver):
    """Hears of tokens and prompts; the rest it asks the request metrics for, so that both say the same."""

    def __init__(self, requests: RequestMetrics, now: Callable[[], float] = time.monotonic) -> None:
        self._requests, self._now = requests, now
        self._recent: dict[int, _Recent] = {}

    def on_tokens(self, news: TokenNews) -> None:
        recent, now_s = self._recent.setdefault(news.device, _Recent()), self._now()
        recent.generated.append((now_s, news.tokens))
        recent.trim(now_s)
        recent.prompts.extend((flight.request.prompt_tokens, flight.cached) for flight in news.first)

    def end(self, device: int) -> None:
        """Forget a device that is gone."""
        self._recent.pop(device, None)

    def of_all(self) -> dict[int, RankLoad]:
        """Return the load of each device that is not gone."""
        waiting = Counter[int]()
        for flight in self._requests.in_flight.flights:
            waiting[flight.device] += flight.request.prompt_tokens if flight.started_s is None else 0
        loads = self._requests.loads()
        return {device: self._of(device, load.running, load.waiting, waiting[device]) for device, load in loads.items()}

    def _of(self, device: int, running: int, waiting: int, waiting_tokens: int) -> RankLoad:
        recent = self._recent.setdefault(device, _Recent())
        recent.trim(self._now())
        prompts, cached = (sum(each) for each in zip(*recent.prompts, strict=True)) if recent.prompts else (0, 0)
        hit_share = cached / prompts if prompts else 0.0
        kv_share = self._requests.kv_usage.values.get(self._requests.labels_of(device), 0.0)
        tokens_per_s = sum(tokens for _, tokens in recent.generated) / WINDOW_S
        return RankLoad(running, waiting, kv_share, tokens_per_s, hit_share, round(waiting_tokens * (1 - hit_share)))

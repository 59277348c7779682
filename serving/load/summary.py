"""Figures from the times of requests. Seconds are on the report's clock: client-measured seconds x `speed`.

- TTFT: from the scheduled arrival to the first output.
- TPOT: from the first output to the end, over n - 1, for a request of n > 1 tokens by the server's own count.
- ITL: one sample a token after the first, so that its mean is the time that tokens took, also where servers send
  several in a chunk (because they decode speculatively, or because they are late): the gap before a chunk of k tokens
  is k samples of gap / k. How many each brought is known if every chunk has `usage` (vLLM: `continuous_usage_stats`);
  else the final count is spread evenly over the chunks.
- E2E: from the scheduled arrival to the last chunk that has a choice.
- Goodput: requests that meet every given SLO, per second of the run. One that failed meets none; one with a single
  token has no TPOT to miss. Attainment is their share of those that completed or failed, or were cancelled after
  they had missed a TTFT or E2E: of a server that hangs, who waited when Ctrl-C came counts.
- The run lasts from its first scheduled arrival to the last chunk of the requests that completed, or to the last
  arrival of one that failed, if that is later: of a server that went away a rate is not that of its good time.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serving.load.client import RequestTimes
from serving.load.latencies import e2e_s, itl_s, tpot_s, ttft_s
from serving.load.options import Slos

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Mean and percentiles of one latency over the run, in seconds; None where there were no samples."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    count: int

    @classmethod
    def of(cls, values: Values) -> "Quantiles":
        """Return the quantiles of samples [n]."""
        if not len(values):
            return cls(None, None, None, None, 0)
        p50, p90, p99 = np.percentile(values, (50, 90, 99)).tolist()
        return cls(float(values.mean()), p50, p90, p99, len(values))


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """Requests that failed in the same way, with the message of the first of them."""

    status: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class Goodput:
    """Requests that met every SLO: per second of the run, and as a share of all that ended."""

    per_s: float
    attainment: float
    slos: dict[str, float]


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run, as the module defines them."""

    requests: int
    completed: int
    failed: int
    cancelled: int
    errors: list[LoadFailure]
    duration_s: float
    prompt_tokens: int
    output_tokens: int
    outputs: int  # Chunks that brought tokens.
    counted_by_server: bool  # Otherwise, at least one request's outputs stand for its tokens.
    ttft_s: Quantiles
    tpot_s: Quantiles
    itl_s: Quantiles
    e2e_s: Quantiles
    send_lag_s: Quantiles  # The client's own delay; in real seconds, whatever the clock.
    calls_asked: int = 0  # Calls of tools, by agents.
    calls_made: int = 0

    @property
    def request_throughput_per_s(self) -> float:
        """Completed requests per second."""
        return self._per_s(self.completed)

    @property
    def output_tokens_per_s(self) -> float:
        """Output tokens of completed requests per second."""
        return self._per_s(self.output_tokens)

    def _per_s(self, n: int) -> float:
        return n / self.duration_s if self.duration_s > 0 else 0.0


def summarise(all_times: Sequence[RequestTimes], speed: float = 1.0) -> Summary:
    """Return the figures of a run; `speed`: seconds of the report's clock per real second."""
    done = [times for times in all_times if times.completed]
    cancelled = sum(times.cancelled for times in all_times)
    return Summary(
        requests=len(all_times),
        completed=len(done),
        failed=len(all_times) - len(done) - cancelled,
        cancelled=cancelled,
        errors=_failures(all_times),
        duration_s=_duration_s(all_times, done) * speed,
        prompt_tokens=sum(times.prompt_tokens or 0 for times in done),
        output_tokens=sum(times.tokens for times in done),
        outputs=sum(len(times.outputs_s) for times in done),
        counted_by_server=all(times.output_tokens is not None for times in done),
        ttft_s=Quantiles.of(_array(map(ttft_s, done)) * speed),
        tpot_s=Quantiles.of(_array(value for times in done if (value := tpot_s(times)) is not None) * speed),
        itl_s=Quantiles.of(np.concatenate([np.zeros(0), *map(itl_s, done)]) * speed),
        e2e_s=Quantiles.of(_array(map(e2e_s, done)) * speed),
        send_lag_s=Quantiles.of(_array(times.lag_s for times in all_times)),
        calls_asked=sum(times.call_parts is not None for times in done),
        calls_made=sum(times.call is not None for times in done),
    )


def by_class(all_times: Sequence[RequestTimes], speed: float = 1.0) -> dict[str, Summary]:
    """Return the figures by SLO class, if any request named one; "" stands for requests that did not."""
    names = sorted({times.slo for times in all_times})
    return {name: summarise([times for times in all_times if times.slo == name], speed) for name in names if any(names)}


def goodput(all_times: Sequence[RequestTimes], slos: Slos, speed: float, duration_s: float) -> Goodput | None:
    """Return the goodput on the report's clock; None if no SLO is given or no request ended."""
    limits = slos.given()
    ended = [times for times in all_times if not times.cancelled or _had_missed(times, slos, speed)]
    if not limits or not ended:
        return None
    met = sum(meets(times, slos, speed) for times in ended)
    return Goodput(met / duration_s if duration_s > 0 else 0.0, met / len(ended), limits)


def meets(times: RequestTimes, slos: Slos, speed: float = 1.0) -> bool:
    """Tell whether the request completed within every limit."""
    if not times.completed:
        return False
    figures = ((ttft_s(times), slos.ttft_s), (tpot_s(times), slos.tpot_s), (e2e_s(times), slos.e2e_s))
    return all(value is None or limit is None or value * speed <= limit for value, limit in figures)


def _had_missed(times: RequestTimes, slos: Slos, speed: float) -> bool:
    """Tell whether a request that was cancelled had missed a limit by then."""
    lasted_s = times.cancelled_s - times.scheduled_s
    waited_s = ttft_s(times) if times.outputs_s else lasted_s
    figures = ((waited_s, slos.ttft_s), (lasted_s, slos.e2e_s))
    return any(limit is not None and value * speed > limit for value, limit in figures)


def _duration_s(all_times: Sequence[RequestTimes], done: Sequence[RequestTimes]) -> float:
    if not done:
        return 0.0
    failed_s = [times.scheduled_s for times in all_times if times.error and not times.cancelled]
    return max([*failed_s, *(times.end_s for times in done)]) - min(times.scheduled_s for times in all_times)


def _failures(all_times: Sequence[RequestTimes]) -> list[LoadFailure]:
    """Group failures whose messages differ in numbers only; the first message stands for its group."""
    kinds: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for times in all_times:
        if times.error and not times.cancelled:
            kind = times.status or "", re.sub(r"\d+", "#", times.error)
            kinds[kind] += 1
            first.setdefault(kind, times.error)
    return [LoadFailure(kind[0], first[kind], count) for kind, count in kinds.most_common()]


def _array(values: Iterable[float]) -> Values:
    return np.fromiter(values, np.float64)

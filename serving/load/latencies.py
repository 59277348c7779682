"""Latencies of one request, as its client saw them: in real seconds, as `summary` defines them."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from serving.load.client import RequestTimes

Values = NDArray[np.float64]


def ttft_s(times: RequestTimes) -> float:
    """Return the time to the first token, in real seconds."""
    return times.outputs_s[0] - times.scheduled_s


def e2e_s(times: RequestTimes) -> float:
    """Return the time to the last chunk, in real seconds."""
    return times.end_s - times.scheduled_s


def tpot_s(times: RequestTimes) -> float | None:
    """Return the time per output token after the first, in real seconds; None for a single token."""
    return (e2e_s(times) - ttft_s(times)) / (times.tokens - 1) if times.tokens > 1 else None


def itl_s(times: RequestTimes) -> Values:
    """Return the times between tokens [n - 1], in real seconds, which sum up to the time from the first to the last."""
    after_first = max(times.tokens, len(times.outputs_s)) - 1
    gaps = np.diff(times.outputs_s)
    together, k = _tokens_by_gap(times, after_first)
    return np.concatenate((np.zeros(together), np.repeat(gaps / k, k)))


def _tokens_by_gap(times: RequestTimes, after_first: int) -> tuple[int, NDArray[np.int64]]:
    """Return how many more tokens came with the first one, and how many with each output after it [outputs - 1]."""
    gaps, counts = len(times.outputs_s) - 1, np.array(times.counts)
    if counts[0] > 0 and (np.diff(counts) > 0).all() and counts[-1] == after_first + 1:
        return int(counts[0]) - 1, np.diff(counts)
    if not gaps:
        return after_first, np.zeros(0, np.int64)
    return 0, np.bincount(np.arange(after_first) * gaps // after_first, minlength=gaps)


def seen_s(name: str, all_times: Sequence[RequestTimes], speed: float) -> list[float]:
    """Return a latency's values for all requests that have it, as a device counts them, x `speed`: of `ttft`, `tpot`
    and `e2e` one a request, without the wait for a place in flight, of which it knows nothing; of `itl` the times
    between two outputs, however many tokens each brought."""
    done = (times for times in all_times if times.completed)
    return [value * speed for times in done for value in _OF[name](times)]


def _tpot_s(times: RequestTimes) -> Iterable[float]:
    value = tpot_s(times)
    return () if value is None else (value,)


def _gaps_s(times: RequestTimes) -> Iterable[float]:
    gaps: list[float] = np.diff(times.outputs_s).tolist()
    return gaps


_OF: dict[str, Callable[[RequestTimes], Iterable[float]]] = {
    "ttft": lambda times: (ttft_s(times) - times.held_s,),
    "tpot": _tpot_s,
    "itl": _gaps_s,
    "e2e": lambda times: (e2e_s(times) - times.held_s,),
}

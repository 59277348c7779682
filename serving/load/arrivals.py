"""When requests arrive: an open loop fixes it before the run and does not wait for the server.

Times are seconds since the start of the run, ascending and without end; `bounded` ends them. The same generator state
gives the same times.
"""

from collections.abc import Callable, Iterator
from itertools import count as numbers
from itertools import islice, takewhile

import numpy as np


def poisson(rate_per_s: float, rng: np.random.Generator) -> Iterator[float]:
    """A Poisson process: gaps are exponential. All at 0 if the rate is infinite."""
    at_s = 0.0
    while True:
        at_s += rng.exponential(1.0 / rate_per_s)
        yield at_s


def constant(rate_per_s: float, rng: np.random.Generator) -> Iterator[float]:
    """Evenly spaced from 0. All at 0 if the rate is infinite."""
    return (i / rate_per_s for i in numbers())


KINDS: dict[str, Callable[[float, np.random.Generator], Iterator[float]]] = {"poisson": poisson, "constant": constant}


def bounded(times: Iterator[float], count: int | None, duration_s: float | None) -> Iterator[float]:
    """The first `count` of the times, and of those only the ones before `duration_s`."""
    first = islice(times, count)
    return first if duration_s is None else takewhile(lambda at_s: at_s < duration_s, first)

"""Workers of a study: Ray runs points, one on each core, here or all over the cluster that `RAY_ADDRESS` names."""

import contextlib
from typing import Any

import ray

from serving.cluster.session.ray_session import ray_session
from serving.study.point import Point
from serving.study.point_outcome import PointOutcome, outcome_of
from serving.study.run import pack, unpack

# A Ray of our own has its next task at hand when a core is free, and not the whole study in its queue; another may have
# more cores than we are to use.
AHEAD = 2


class Workers:
    """Runs points in Ray's workers, as many at a time as there are `cores` (default: all)."""

    def __init__(self, cores: int | None = None) -> None:
        self._session = contextlib.ExitStack()
        self._started = not ray.is_initialized()
        if self._started:
            self._session.enter_context(ray_session(cores))
        self.cores = cores or max(1, int(ray.cluster_resources().get("CPU", 1)))
        # A worker that dies has taken its point with it: the next one would die of it too.
        self._remote = ray.remote(num_cpus=1, max_retries=0)(_make)
        self._under_way: dict[Any, Point] = {}

    def close(self) -> None:
        """End Ray, if it was started here."""
        self._session.close()

    @property
    def has_room(self) -> bool:
        """Tell whether another point may be given out."""
        return len(self._under_way) < self.cores * (AHEAD if self._started else 1)

    @property
    def busy(self) -> bool:
        """Tell whether any point is under way."""
        return bool(self._under_way)

    def give(self, point: Point) -> None:
        """Have a point made."""
        self._under_way[self._remote.remote(point)] = point

    def take(self, timeout_s: float) -> PointOutcome | None:
        """Take a point that was given out and has been made; return None if none is by then."""
        ready, _ = ray.wait(list(self._under_way), num_returns=1, timeout=timeout_s)
        if not ready:
            return None
        point = self._under_way.pop(ready[0])
        try:
            packed, error = ray.get(ready[0])
        except ray.exceptions.RayError as failure:
            first = str(failure).strip().splitlines()[0]
            return PointOutcome(point, None, f"The process that ran it died ({type(failure).__name__}): {first}")
        return PointOutcome(point, unpack(packed) if packed else None, error)


def _make(point: Point) -> tuple[bytes, str]:
    """Run a point; return the packed run and "", or b"" and the error."""
    outcome = outcome_of(point)
    return (pack(outcome.run) if outcome.run else b""), outcome.error

"""The progress of a load run."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from serving.load.drive import Drive

RATE_OVER_S = 5.0


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A run's progress at one instant; seconds are real."""

    elapsed_s: float
    in_flight: int
    done: int
    failed: int
    tokens_per_s: float

    def __str__(self) -> str:
        counts = f"{self.in_flight} in flight, {self.done} done, {self.failed} failed"
        return f"{self.elapsed_s:5.1f} s  {counts}, {self.tokens_per_s:,.0f} tokens/s"


OnProgress = Callable[[LoadProgress], None]


class Meter:
    """A meter of a drive's progress; its token rate is that of the last `RATE_OVER_S` seconds."""

    def __init__(self, drive: Drive, clock: Callable[[], float] = monotonic) -> None:
        self.drive, self.clock = drive, clock
        self.start_s = clock()
        self.seen: deque[tuple[float, int]] = deque([(self.start_s, 0)])

    def read(self) -> LoadProgress:
        """Return the progress now. Outputs stand for a request's tokens until its end brings the server's count."""
        drive, now_s = self.drive, self.clock()
        tokens = drive.ended_tokens + sum(len(times.outputs_s) for times in drive.in_flight)
        self.seen.append((now_s, tokens))
        # The oldest one kept is the last that is as old as that.
        while len(self.seen) > 2 and self.seen[1][0] <= now_s - RATE_OVER_S:
            self.seen.popleft()
        from_s, before = self.seen[0]
        rate = (tokens - before) / max(now_s - from_s, 1e-6)
        return LoadProgress(now_s - self.start_s, len(drive.in_flight), drive.done, drive.failed, max(0.0, rate))

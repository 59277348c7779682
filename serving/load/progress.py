"""The progress of a load run."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from serving.load.drive import Drive


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
    """A meter of a drive's progress; its token rate is the mean since the last reading."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.start_s = self.last_s = monotonic()
        self.last_tokens = 0

    def read(self) -> LoadProgress:
        """Return the progress now. Outputs stand for a request's tokens until its end brings the server's count."""
        drive, now_s = self.drive, monotonic()
        tokens = drive.ended_tokens + sum(len(times.outputs_s) for times in drive.in_flight)
        rate = (tokens - self.last_tokens) / max(now_s - self.last_s, 1e-6)
        self.last_s, self.last_tokens = now_s, tokens
        return LoadProgress(now_s - self.start_s, len(drive.in_flight), drive.done, drive.failed, max(0.0, rate))

"""How a run is going: a line every few seconds for people, and one of JSON for the record."""

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from serving.usage_error import UsageError

EVERY_S = 10.0
MOST_LINES = 300
LOG = "training_log.jsonl"


@dataclass(frozen=True, slots=True)
class TrainingPoint:
    """The run after a step; `loss` is the mean since the last point, `held_out` the last one measured."""

    step: int
    tokens: int
    seconds: float
    loss: float
    held_out: float | None
    tokens_per_s: float
    busiest_expert: float  # its load, in even shares, in the worst layer
    idle_experts: int  # in all layers, lately


@dataclass(slots=True)
class TrainingProgress:
    """Collects the steps' losses, and says every few seconds how it goes."""

    earlier: str = ""  # the log of the runs whose weights this one began with
    points: list[TrainingPoint] = field(default_factory=list)
    held_out: float | None = None
    losses: list[float] = field(default_factory=list)
    last: tuple[int, int, float, int] = (0, 0, 0.0, 0)
    said_s: float = field(default_factory=time.monotonic)
    begun: int = 0  # tokens

    def begin(self, tokens: int) -> None:
        """Count the time from now on, and the tokens from these on."""
        self.said_s, self.begun = time.monotonic(), tokens

    def step(self, step: int, loss: float, tokens: int, busiest: float, idle: int) -> bool:
        """Take a step's figures, `tokens` being all so far; True if enough time has passed for a new point."""
        self.losses.append(loss)
        self.last = (step, tokens, busiest, idle)
        if time.monotonic() - self.said_s < EVERY_S:
            return False
        self.end()
        return True

    def end(self) -> None:
        """Add a point of what came since the last one."""
        if not self.losses:
            return
        now = time.monotonic()
        span = max(now - self.said_s, 1e-9)
        step, tokens, busiest, idle = self.last
        before = self.points[-1].seconds if self.points else 0.0
        mean, speed = sum(self.losses) / len(self.losses), (tokens - self.begun) / span
        self.points.append(TrainingPoint(step + 1, tokens, before + span, mean, self.held_out, speed, busiest, idle))
        self.losses, self.said_s, self.begun = [], now, tokens

    def say(self, share: float) -> None:
        """Print the last point, and how long it will still take if it goes on like this."""
        point = self.points[-1]
        held_out = "" if point.held_out is None else f", held-out {point.held_out:.3f}"
        left_s = point.seconds * (1 / max(share, 1e-3) - 1)
        print(
            f"step {point.step}, {point.tokens / 1e6:.2f} M tokens, loss {point.loss:.3f}{held_out}, "
            f"{point.tokens_per_s:.0f} tokens/s, "
            f"busiest expert {point.busiest_expert:.1f}x, idle {point.idle_experts}, "
            f"{left_s / 60:.1f} min left",
            file=sys.stderr,
            flush=True,
        )

    def write(self, folder: Path, header: dict[str, Any]) -> None:
        """Write the header and as many of the points as the log may have, evenly thinned, the last one always, below
        the log of the runs before."""
        stride = -(-len(self.points) // MOST_LINES)
        kept = self.points[:: -stride or None][::-1] if stride else []
        lines = [header, *map(asdict, kept[-(MOST_LINES - 1) :])]
        own = "".join(json.dumps(_rounded(line)) + "\n" for line in lines)
        (folder / LOG).write_text(self.earlier + own, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A run as its log has it: its settings by name, and its points."""

    settings: dict[str, Any]
    points: list[dict[str, Any]]


def logged_runs(folder: Path) -> list[LoggedRun]:
    """Return the runs that made the model in `folder`, one after the other. Raise UsageError if it has no log."""
    try:
        lines = (folder / LOG).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{folder} has no log of a training, {LOG} ({error.strerror}): a card is of one.") from error
    runs: list[LoggedRun] = []
    for line in map(json.loads, lines):
        if "shape" in line:
            runs.append(LoggedRun(line, []))
        else:
            runs[-1].points.append(line)
    return runs


def _rounded(line: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()}

"""How a training run is done. The defaults are those of the bundled model."""

import time
from dataclasses import dataclass, field

from serving.lab.training.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Settings:
    """A run: `parts` parts of `part_tokens` each are a step. The parts are what the threads share, so the same seed and
    steps give the same weights on any number of threads."""

    shape: ModelShape = field(default_factory=ModelShape)
    seed: int = 0
    threads: int = 2
    parts: int = 2
    part_tokens: int = 2048
    matrix_rate: float = 6e-3  # learning rate of the matrices inside the layers
    other_rate: float = 4e-3  # of embedding, routers and norms
    segment: int = 512  # longest segment
    alone: float = 0.8  # of segments, how many are one document
    long_from: float = 0.9  # share of the run after which half of the parts are one segment each
    warm_up: float = 0.02  # share of the run in which the learning rate rises
    hold: float = 0.4  # share of the run until which it stays; from there it falls to nothing
    clip: float = 1.0  # longest gradient
    balance: float = 1e-2  # what evenly used experts weigh in the loss, over the whole batch
    loose_from: float = 0.8  # share of the run after which the weight is the next one: experts turn to their topics
    loose_balance: float = 1e-3
    machine: bool = True  # whether to read this machine's docstrings and licences too


@dataclass(slots=True)
class TrainingBudget:
    """How long a run may be: in steps, or in minutes from its start."""

    steps: int | None = None
    minutes: float | None = None
    started_s: float = field(default_factory=time.monotonic)

    def share(self, step: int) -> float:
        """How much of it is used before this step: 1 or more ends the run."""
        if self.steps is not None:
            return step / self.steps
        return self.elapsed_s() / (60 * (self.minutes or 0.0))

    def elapsed_s(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started_s


def rate_at(share: float, settings: Settings) -> float:
    """Return the learning rate at this point of the run, as a share of the highest: up, level, and down to nothing."""
    if share < settings.warm_up:
        return max(share / settings.warm_up, 0.01)
    return min(1.0, max(0.0, 1 - share) / (1 - settings.hold))

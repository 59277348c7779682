"""The token source's time for a step, learned from its steps."""

from dataclasses import dataclass, field, replace

from serving.recordings.source_load import EACH_S, STEP_S

# Weight of a step beside the next one: the last hundred or so say what the next one takes.
FORGOTTEN = 0.99
# The prior, before any step, and of batch sizes that never came: a step of each of so many sequences, as long as one is
# believed to take of a source that has told nothing, times what those seen took more, or less. Steps of one size say
# nothing of what one more sequence costs; a source that is slower or faster is taken to be so by as much with any.
BELIEVED = (1, 64)
# The steps of one sequence that the prior counts as where those seen are compared with it.
COMPARED = 8


@dataclass(slots=True)
class Sums:
    """The sums over steps, each with a weight, that least squares need."""

    weight: float = 0.0
    rows: float = 0.0
    rows2: float = 0.0
    seconds: float = 0.0
    product: float = 0.0

    def add(self, rows: float, seconds: float) -> None:
        """Add a step of `rows` sequences that took `seconds`."""
        self.weight += 1.0
        self.rows += rows
        self.rows2 += rows * rows
        self.seconds += seconds
        self.product += rows * seconds

    def fade(self, share: float) -> None:
        """Multiply all sums by `share`."""
        self.weight, self.rows, self.rows2 = share * self.weight, share * self.rows, share * self.rows2
        self.seconds, self.product = share * self.seconds, share * self.product


@dataclass(slots=True)
class StepTimeFit:
    """A line through the times of steps over their sequences: least squares that forget old steps."""

    _seen: Sums = field(default_factory=Sums)

    def learn(self, rows: int, seconds: float) -> None:
        """Learn from a step of `rows` sequences that took `seconds`."""
        self._seen.fade(FORGOTTEN)
        self._seen.add(rows, seconds)

    @property
    def line(self) -> tuple[float, float]:
        """Seconds of a step, and more for each sequence in it; neither is negative."""
        sums, slowness = replace(self._seen), self._slowness
        for rows in BELIEVED:
            sums.add(rows, slowness * (STEP_S + rows * EACH_S))
        spread = sums.rows2 - sums.rows**2 / sums.weight
        each = max(0.0, (sums.product - sums.rows * sums.seconds / sums.weight) / spread)
        return max(0.0, (sums.seconds - each * sums.rows) / sums.weight), each

    @property
    def _slowness(self) -> float:
        """Return how many times as long as believed steps take."""
        seen, alike_s = self._seen, COMPARED * (STEP_S + EACH_S)
        return (seen.seconds + alike_s) / (seen.weight * STEP_S + seen.rows * EACH_S + alike_s)

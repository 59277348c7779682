"""The token source's time for a step, learned from its steps."""

from dataclasses import dataclass, field

# Weight of a step beside the next one: the last hundred or so say what the next one takes.
FORGOTTEN = 0.99
# The prior, before any step, and of batch sizes that never came: sequences, seconds, and the steps that each counts as.
# Foreserve-moe on one core of 2020; a slower source is taken to be slower by as much with any batch.
BELIEVED = ((1, 0.004, 1.0), (64, 0.022, 1.0))
# The steps that the prior counts as where it is compared with those seen.
COMPARED = 8
# A process's first steps, which compile and fill caches: no measure of those that follow.
UNSTEADY = 4


@dataclass(slots=True)
class Sums:
    """The sums over steps, each with a weight, that least squares need."""

    weight: float = 0.0
    rows: float = 0.0
    rows2: float = 0.0
    seconds: float = 0.0
    product: float = 0.0

    def add(self, rows: float, seconds: float, weight: float = 1.0) -> None:
        """Add a step of `rows` sequences that took `seconds`."""
        self.weight += weight
        self.rows += weight * rows
        self.rows2 += weight * rows * rows
        self.seconds += weight * seconds
        self.product += weight * rows * seconds

    def fade(self, share: float) -> None:
        """Multiply all sums by `share`."""
        self.weight, self.rows, self.rows2 = share * self.weight, share * self.rows, share * self.rows2
        self.slow(share)

    def slow(self, factor: float) -> None:
        """Have all steps take `factor` times as long."""
        self.seconds, self.product = factor * self.seconds, factor * self.product

    def plus(self, other: "Sums") -> "Sums":
        """Return the sums over both's steps."""
        return Sums(
            self.weight + other.weight,
            self.rows + other.rows,
            self.rows2 + other.rows2,
            self.seconds + other.seconds,
            self.product + other.product,
        )

    @property
    def line(self) -> tuple[float, float]:
        """Seconds of a step, and more for each sequence in it, by least squares; neither is negative."""
        spread = self.rows2 - self.rows**2 / self.weight
        each = max(0.0, (self.product - self.rows * self.seconds / self.weight) / spread)
        return max(0.0, (self.seconds - each * self.rows) / self.weight), each


def believed() -> Sums:
    """Return the sums of the prior, `BELIEVED`."""
    sums = Sums()
    for rows, seconds, weight in BELIEVED:
        sums.add(rows, seconds, weight)
    return sums


@dataclass(slots=True)
class StepTimeFit:
    """A line through the times of steps over their sequences: least squares that forget old steps."""

    _seen: Sums = field(default_factory=Sums)
    _unsteady: int = UNSTEADY

    def learn(self, rows: int, seconds: float) -> None:
        """Learn from a step of `rows` sequences that took `seconds`."""
        if self._unsteady:
            self._unsteady -= 1
            return
        self._seen.fade(FORGOTTEN)
        self._seen.add(rows, seconds)

    @property
    def line(self) -> tuple[float, float]:
        """Seconds of a step, and more for each sequence in it; neither is negative."""
        prior = believed()
        prior.slow(self._slowness(*prior.line))
        return prior.plus(self._seen).line

    def _slowness(self, step_s: float, each_s: float) -> float:
        """Return how many times as long steps take as by a line."""
        alike_s = COMPARED * step_s
        expected_s = self._seen.weight * step_s + self._seen.rows * each_s
        return (self._seen.seconds + alike_s) / (expected_s + alike_s)

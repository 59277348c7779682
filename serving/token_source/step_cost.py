"""The token source's time for a step, learned from its steps."""

from dataclasses import dataclass, field

# Weight of a step beside the next one: the last hundred or so say what the next one takes.
FORGOTTEN = 0.99
# The prior, before any step, and of batch sizes that never came: sequences, seconds, and the steps that each counts as.
# Foreserve-moe on one core; a faster source shows it with each batch a little larger.
BELIEVED = ((1, 0.004, 1.0), (64, 0.022, 1.0))


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
        self.seconds, self.product = share * self.seconds, share * self.product


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

    def learn(self, rows: int, seconds: float) -> None:
        """Learn from a step of `rows` sequences that took `seconds`."""
        self._seen.fade(FORGOTTEN)
        self._seen.add(rows, seconds)

    @property
    def line(self) -> tuple[float, float]:
        """Seconds of a step, and more for each sequence in it; neither is negative."""
        seen, sums = self._seen, believed()
        sums.weight, sums.rows, sums.rows2 = sums.weight + seen.weight, sums.rows + seen.rows, sums.rows2 + seen.rows2
        sums.seconds, sums.product = sums.seconds + seen.seconds, sums.product + seen.product
        spread = sums.rows2 - sums.rows**2 / sums.weight
        each = max(0.0, (sums.product - sums.rows * sums.seconds / sums.weight) / spread)
        return max(0.0, (sums.seconds - each * sums.rows) / sums.weight), each

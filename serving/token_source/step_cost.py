"""How long the token source takes for a step, learned from its steps."""

from dataclasses import dataclass, field

# Each step counts so much more than the one before it: the last hundred or so say what the next one takes.
FORGOTTEN = 0.99
# What is believed before any step, and of batches that there never were: sequences, seconds, and as how many steps
# each of these counts. Foreserve-moe on one core; whoever is faster shows it with each batch a little larger.
BELIEVED = ((1, 0.004, 1.0), (64, 0.022, 1.0))


@dataclass(slots=True)
class Sums:
    """What least squares need of steps, each with a weight."""

    weight: float = 0.0
    rows: float = 0.0
    rows2: float = 0.0
    seconds: float = 0.0
    product: float = 0.0

    def add(self, rows: float, seconds: float, weight: float = 1.0) -> None:
        """A step with so many sequences took so long."""
        self.weight += weight
        self.rows += weight * rows
        self.rows2 += weight * rows * rows
        self.seconds += weight * seconds
        self.product += weight * rows * seconds

    def fade(self, share: float) -> None:
        """Keep so large a share of all of it."""
        self.weight, self.rows, self.rows2 = share * self.weight, share * self.rows, share * self.rows2
        self.seconds, self.product = share * self.seconds, share * self.product


def believed() -> Sums:
    """What is known without any step."""
    sums = Sums()
    for rows, seconds, weight in BELIEVED:
        sums.add(rows, seconds, weight)
    return sums


@dataclass(slots=True)
class StepTimeFit:
    """A line through the times of steps over their sequences: least squares, with what is long ago forgotten."""

    _seen: Sums = field(default_factory=Sums)

    def learn(self, rows: int, seconds: float) -> None:
        """A step with so many sequences took so long."""
        self._seen.fade(FORGOTTEN)
        self._seen.add(rows, seconds)

    @property
    def line(self) -> tuple[float, float]:
        """Seconds of a step, and of each sequence in it; neither is negative."""
        seen, sums = self._seen, believed()
        sums.weight, sums.rows, sums.rows2 = sums.weight + seen.weight, sums.rows + seen.rows, sums.rows2 + seen.rows2
        sums.seconds, sums.product = sums.seconds + seen.seconds, sums.product + seen.product
        spread = sums.rows2 - sums.rows**2 / sums.weight
        each = max(0.0, (sums.product - sums.rows * sums.seconds / sums.weight) / spread)
        return max(0.0, (sums.seconds - each * sums.rows) / sums.weight), each

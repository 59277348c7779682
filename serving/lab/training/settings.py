"""How a training run is done. The defaults are those of the bundled model."""

from dataclasses import dataclass, field

from serving.lab.training.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Settings:
    """A run: `parts` parts of `part_tokens` each are a step. The parts are what the threads share, so the same settings
    give the same weights on any number of threads, on CPUs of the same type."""

    shape: ModelShape = field(default_factory=ModelShape)
    steps: int = 10400
    seed: int = 0
    threads: int = 2
    parts: int = 2
    part_tokens: int = 2048
    matrix_rate: float = 6e-3  # learning rate of the matrices inside the layers
    other_rate: float = 4e-3  # of embedding, routers and norms
    segment: int = 512  # longest segment
    alone: float = 0.8  # of segments, how many are one document
    asked: float = 0.55  # of documents, how many are on anything that people ask
    began: str = ""  # the SHA-256 of the weights that this run began with; none: random ones
    kept: float = 1.0  # of what it has learnt, how much is kept: the rest of the way is to the weights it began with
    long_tokens: int = 4096  # longest segment of conversations
    long: int = 2400  # last steps, in one of `long_every` of which half of the parts are such conversations
    long_every: int = 4
    warm_up: int = 50  # steps in which the learning rate rises
    fall: int = 8000  # last steps, in which it falls to nothing
    clip: float = 1.0  # longest gradient
    balance: float = 1e-2  # what evenly used experts weigh in the loss, over many batches together
    same: float = 3e-2  # what it weighs that topics use the same experts
    narrow: bool = True  # whether products with the output are in BF16: half the time, where the CPU has it


def rate_at(step: int, settings: Settings) -> float:
    """Return the learning rate of this step, as a share of the highest: up, level, and down to nothing."""
    return min((step + 1) / settings.warm_up, 1.0, (settings.steps - step) / settings.fall)


def is_long(step: int, settings: Settings) -> bool:
    """Tell whether half of this step's parts are long conversations. They come while the learning rate falls, between
    steps without them, so that the model learns long contexts and forgets nothing."""
    return step >= settings.steps - settings.long and step % settings.long_every == 0

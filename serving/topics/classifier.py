"""Classifier of prompts by topic: the encoder with its trained weights, and a linear head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors.numpy import load_file
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from serving.topics.encoder import Encoder, Tensors
from serving.topics.names import NAMES
from serving.topics.prompt_reader import PromptReader

WEIGHTS = Path(__file__).parent / "weights.safetensors"
MOST = 32  # prompts in one go: more are no faster, and take memory


@dataclass(frozen=True, slots=True)
class Topic:
    """A prompt's topic. `scores` has each topic's probability, of which `confidence` is the largest."""

    name: str
    confidence: float
    scores: Mapping[str, float]


class Classifier:
    """A classifier of prompts by topic. A result does not depend on the other prompts of its batch."""

    def __init__(self, reader: PromptReader, tensors: Tensors) -> None:
        """`tensors` are the encoder's, with `head.weight` [topics, width] and `head.bias`."""
        self._reader = reader
        self._encoder = Encoder(tensors)
        self._weight, self._bias = tensors["head.weight"].T, tensors["head.bias"]

    @classmethod
    def load(cls, weights: Path = WEIGHTS) -> "Classifier":
        """Return the classifier with the weights in a file."""
        return cls(PromptReader(), load_file(weights))

    @staticmethod
    def use_one_core() -> None:
        """Let numpy compute on one core, in all of this process: matrices this small are no faster on several."""
        threadpool_limits(1, "blas")

    def classify(self, prompts: Sequence[str]) -> list[Topic]:
        """Return the topic of each prompt, in their order."""
        return [topic for i in range(0, len(prompts), MOST) for topic in self._batch(prompts[i : i + MOST])]

    def _batch(self, prompts: Sequence[str]) -> list[Topic]:
        vectors = self._encoder.vectors([self._reader.read(prompt) for prompt in prompts])
        return [_topic(row) for row in softmax(vectors @ self._weight + self._bias, 1).tolist()]


def _topic(shares: Sequence[float]) -> Topic:
    scores = dict(zip(NAMES, shares, strict=True))
    name = max(NAMES, key=scores.__getitem__)
    return Topic(name, scores[name], scores)

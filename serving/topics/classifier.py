"""Topics of prompts: the encoder with what was learnt for it, and a linear head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from serving.topics.encoder import Encoder, Weights, model_folder, pooled
from serving.topics.names import NAMES
from serving.topics.reading import PromptReader

WEIGHTS = Path(__file__).parent / "weights.safetensors"
MOST = 32  # prompts in one go: more are no faster, and take memory


@dataclass(frozen=True, slots=True)
class Topic:
    """What a prompt is about. `scores` has each topic's probability, of which `confidence` is the largest."""

    name: str
    confidence: float
    scores: Mapping[str, float]


class Classifier:
    """Prompts to topics. Nothing depends on what else is asked at the same time."""

    def __init__(self, reader: PromptReader, encoder: Encoder, weights: Weights) -> None:
        """`weights` has the last layer's changes, `head.weight` [topics, width] and `head.bias`."""
        self._reader = reader
        self._encoder = encoder
        *below, last = encoder.layers
        self._encoder.layers = [layer.halved() for layer in (*below, last.changed(weights))]
        self._weight, self._bias = weights["head.weight"], weights["head.bias"]

    @classmethod
    def load(cls, weights: Path = WEIGHTS) -> "Classifier":
        """The classifier with the weights in the file. SpecError if the encoder's package is not installed."""
        folder = model_folder()
        return cls(PromptReader(folder), Encoder(folder), load_file(weights))

    @staticmethod
    def use_one_core() -> None:
        """Let torch compute on one core, in all of this process: what is this small is no faster on several."""
        torch.set_num_threads(1)

    def classify(self, prompts: Sequence[str]) -> list[Topic]:
        """The topic of each prompt, in their order."""
        return [topic for i in range(0, len(prompts), MOST) for topic in self._batch(prompts[i : i + MOST])]

    def _batch(self, prompts: Sequence[str]) -> list[Topic]:
        read = [self._reader.read(prompt) for prompt in prompts]
        with torch.inference_mode():
            vectors = pooled(self._encoder.states(read), [len(tokens) for tokens in read])
            shares = torch.softmax(vectors @ self._weight.T + self._bias, 1)
        return [_topic(row) for row in shares.tolist()]


def _topic(shares: Sequence[float]) -> Topic:
    scores = dict(zip(NAMES, shares, strict=True))
    name = max(NAMES, key=scores.__getitem__)
    return Topic(name, scores[name], scores)

"""The first layers of all-MiniLM-L6-v2 in numpy: tokens of prompts to one vector for each.

The architecture is BERT's (https://arxiv.org/abs/1810.04805), and `serving/lab/topic_training/encoder.py` has it in
torch, to train with. The prompts of a batch lie end to end in one matrix, a row for each token and nothing between:
operations on rows take the whole matrix, attention takes each prompt apart. So a result does not depend on the rest of
its batch, and no time is spent on padding.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, softmax

WIDTH, HEADS, EPSILON = 384, 12, 1e-12
"""Of the model's config.json."""
LAYERS = 2
"""Of six. README.md has what each number of layers is worth, and what it costs."""
LINEAR = ("qkv", "attended", "up", "down")
NORMS = ("norm_attended", "norm_down")

Matrix = NDArray[np.float32]
Tensors = Mapping[str, NDArray[Any]]


class Linear(NamedTuple):
    """An affine map: a weight [out, in] and a bias [out]."""

    weight: Matrix
    bias: Matrix

    def __call__(self, x: Matrix) -> Matrix:
        """Return the map of each row of `x` [n, in], as [n, out]."""
        # In this order BLAS packs the rows and not the matrix, which is larger: half the time.
        return _float((self.weight @ x.T).T + self.bias)


class Norm(NamedTuple):
    """Layer norm: each row to a mean of 0 and a variance of 1, then by a factor and a summand [width]."""

    factor: Matrix
    summand: Matrix

    def __call__(self, x: Matrix) -> Matrix:
        """Return the rows of `x` [n, width], each normed."""
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(EPSILON))
        return _float(centred / deviation * self.factor + self.summand)


class Layer(NamedTuple):
    """A layer: attention and a feed-forward part, each added to its input and normed."""

    qkv: Linear
    attended: Linear
    up: Linear
    down: Linear
    norm_attended: Norm
    norm_down: Norm

    def __call__(self, x: Matrix, lengths: Sequence[int]) -> Matrix:
        """Return the states [tokens, width] after this layer; `lengths` are the prompts' tokens."""
        parts = np.split(self.qkv(x), np.cumsum(lengths)[:-1])
        x = self.norm_attended(x + self.attended(np.concatenate([_attention(part) for part in parts])))
        return self.norm_down(x + self.down(_gelu(self.up(x))))


class Encoder:
    """The embeddings and the first `LAYERS` layers."""

    def __init__(self, tensors: Tensors) -> None:
        """`tensors`: by the names that `serving.lab.topic_training.pack` gives them."""
        # Of 30,522 rows a prompt needs some dozens: they stay as small as they are stored.
        self._words, self._scales = tensors["words"], tensors["words.scale"]
        self._positions = _float(tensors["positions"])
        self._norm = Norm(*_affine(tensors, "norm"))
        self._layers = [_layer(tensors, index) for index in range(LAYERS)]

    def vectors(self, prompts: Sequence[Sequence[int]]) -> Matrix:
        """Return each prompt's mean state as a vector [prompts, width] whose elements' mean square is 1."""
        lengths = [len(prompt) for prompt in prompts]
        tokens = [token for prompt in prompts for token in prompt]
        positions = [at for length in lengths for at in range(length)]
        words = self._words[tokens].astype(np.float32) * self._scales[tokens]
        x = self._norm(words + self._positions[positions])
        for layer in self._layers:
            x = layer(x, lengths)
        means = np.stack([part.mean(0) for part in np.split(x, np.cumsum(lengths)[:-1])])
        return _float(means / np.linalg.norm(means, axis=1, keepdims=True) * WIDTH**0.5)


def _gelu(x: Matrix) -> Matrix:
    return _float(0.5 * x * (1 + erf(x * np.float32(0.5**0.5))))


def _attention(qkv: Matrix) -> Matrix:
    """Return one prompt's attention [tokens, width], from its `qkv` [tokens, 3 * width]."""
    query, key, value = qkv.reshape(len(qkv), 3, HEADS, -1).transpose(1, 2, 0, 3)
    scores = query @ key.transpose(0, 2, 1) * np.float32((WIDTH // HEADS) ** -0.5)
    return _float((softmax(scores, -1) @ value).transpose(1, 0, 2).reshape(len(qkv), WIDTH))


def _layer(tensors: Tensors, index: int) -> Layer:
    qkv, attended, up, down = (Linear(*_affine(tensors, f"layers.{index}.{name}")) for name in LINEAR)
    norms = (Norm(*_affine(tensors, f"layers.{index}.{name}")) for name in NORMS)
    return Layer(qkv, attended, up, down, *norms)


def _affine(tensors: Tensors, name: str) -> tuple[Matrix, Matrix]:
    return _float(tensors[f"{name}.weight"]), _float(tensors[f"{name}.bias"])


def _float(x: NDArray[Any]) -> Matrix:
    return np.asarray(x, np.float32)

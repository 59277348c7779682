"""Which weights matter: Wanda's importance, |weight| times the L2 norm of its input (Cassandra, IV-B and VII-B 2)."""

import torch
from torch import Tensor

from serving.lab.self_speculation.model import Pass, prefill
from serving.lab.self_speculation.weights import ModelWeights

SEQUENCES, LENGTH = 128, 64


class Norms:
    """L2 norms of the input channels of each matrix over the tokens that it sees: for an expert, those routed to it."""

    def __init__(self) -> None:
        self._squares: dict[tuple[str, int], Tensor] = {}

    def dense(self, names: tuple[str, ...], layer: int, inputs: Tensor) -> None:
        for name in names:
            self._add(name, layer, inputs.flatten(0, 1).square().sum(0))

    def experts(self, name: str, layer: int, inputs: Tensor) -> None:
        self._add(name, layer, inputs.square().sum(1))

    def of(self, name: str, layer: int) -> Tensor:
        """[K], or [experts, 1, K]. An expert that saw no token has the norms of all together."""
        squares = self._squares[name, layer]
        if squares.ndim == 1:
            return squares.sqrt()
        seen = squares.sum(-1, keepdim=True) > 0
        return torch.where(seen, squares, squares.sum(0)).sqrt()[:, None]

    def _add(self, name: str, layer: int, squares: Tensor) -> None:
        self._squares[name, layer] = self._squares.get((name, layer), 0) + squares


def calibrate(weights: ModelWeights, texts: list[list[int]]) -> Norms:
    """Norms over up to 128 sequences of 64 tokens, cut out of `texts` laid end to end."""
    stream = [token for text in texts for token in text]
    pieces = [stream[i * LENGTH : (i + 1) * LENGTH] for i in range(min(SEQUENCES, len(stream) // LENGTH))]
    norms = Norms()
    with torch.inference_mode():
        for i in range(0, len(pieces), 16):
            prefill(weights, pieces[i : i + 16], LENGTH, Pass(watch=norms))
    return norms


def kept(matrix: Tensor, norms: Tensor, ratio: float) -> Tensor:
    """Return True where a weight [..., outputs, K] stays: all but the `ratio` least important of each output."""
    importance = matrix.abs() * norms
    least = importance.topk(round(ratio * matrix.shape[-1]), dim=-1, largest=False).indices
    return torch.ones_like(matrix, dtype=torch.bool).scatter(-1, least, False)

"""The model: exactly the arithmetic of transformers' Qwen3-MoE, arranged for training on a CPU.

A batch is one long row of tokens, made of segments that don't see each other.
"""

from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from serving.lab.training.attention import attended
from serving.lab.training.experts import ExpertLayer, TrainedRouting
from serving.lab.training.shape import ModelShape


class ScaledNorm(torch.autograd.Function):
    """Rows at a mean square of one, times a scale: with its gradients worked out, half the passes over the rows."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, scale: torch.Tensor, epsilon: float) -> torch.Tensor:
        """`x` [..., size] and `scale` [size] give [..., size]."""
        size = x.shape[-1]
        factor = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(size).add_(epsilon).rsqrt_()
        normed = x * factor
        context.save_for_backward(normed, scale, factor)
        return normed * scale

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Return the gradients of the rows and of the scale."""
        normed, scale, factor = context.saved_tensors
        product = grad * normed
        along = (product @ scale / -len(scale)).unsqueeze(-1)
        return (grad * scale).addcmul_(normed, along).mul_(factor), product.flatten(0, -2).sum(0), None


class Norm(nn.Module):
    """Root-mean-square norm with a learnt scale."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` at a mean square of one, times the scale."""
        return ScaledNorm.apply(x, self.scale, self.epsilon)


class Attention(nn.Module):
    """Grouped-query attention with normed queries and keys and rotary positions."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.q = nn.Parameter(torch.empty(shape.heads * shape.head_size, shape.hidden))
        self.k = nn.Parameter(torch.empty(shape.kv_heads * shape.head_size, shape.hidden))
        self.v = nn.Parameter(torch.empty(shape.kv_heads * shape.head_size, shape.hidden))
        self.o = nn.Parameter(torch.empty(shape.hidden, shape.heads * shape.head_size))
        self.q_norm = Norm(shape.head_size, shape.epsilon)
        self.k_norm = Norm(shape.head_size, shape.epsilon)

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], lengths: list[int]) -> torch.Tensor:
        """Return what each token takes from those before it in its segment."""
        rows = x @ torch.cat([self.q, self.k, self.v]).T
        rows = rows.unflatten(1, (self.heads + 2 * self.kv_heads, -1)).transpose(0, 1)
        q, k, v = rows.split([self.heads, self.kv_heads, self.kv_heads])
        q, k = rotated(self.q_norm(q), turn), rotated(self.k_norm(k), turn)
        segments = zip(*(rows.split(lengths, 1) for rows in (q, k, v)), strict=True)
        seen = [attended(q, k, v) for q, k, v in segments]
        return torch.cat(seen, 1).transpose(0, 1).flatten(1) @ self.o.T


class TransformerLayer(nn.Module):
    """Attention, then experts, each normed and added to what came in."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.attention_norm = Norm(shape.hidden, shape.epsilon)
        self.attention = Attention(shape)
        self.experts_norm = Norm(shape.hidden, shape.epsilon)
        self.experts = ExpertLayer(shape)

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], lengths: list[int]
    ) -> tuple[torch.Tensor, TrainedRouting]:
        """Return the tokens after this layer, and where it sent them."""
        x = x + self.attention(self.attention_norm(x), turn, lengths)
        added, routing = self.experts(self.experts_norm(x))
        return x + added, routing


class TrainedModel(nn.Module):
    """Embedding, layers and a last norm; the embedding is also the output matrix."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.empty(shape.vocabulary, shape.hidden))
        self.layers = nn.ModuleList(TransformerLayer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.epsilon)

    def forward(self, ids: torch.Tensor, lengths: list[int]) -> tuple[torch.Tensor, list[TrainedRouting]]:
        """Return the last hidden state of each token, and each layer's routing."""
        x = functional.embedding(ids, self.embedding)
        turn = turns(lengths, self.shape)
        routings = []
        for layer in self.layers:
            x, routing = layer(x, turn, lengths)
            routings.append(routing)
        return self.norm(x), routings


def turns(lengths: list[int], shape: ModelShape) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of each token's rotary angles; positions count from its segment's start."""
    at = torch.tensor(list(chain.from_iterable(map(range, lengths))), dtype=torch.float32)
    rate = shape.theta ** -(torch.arange(0, shape.head_size, 2, dtype=torch.float32) / shape.head_size)
    angles = (at[:, None] * rate).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotated(x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """`x` turned by the angles: element i together with element i + half."""
    cos, sin = turn
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def initialise(model: TrainedModel, seed: int) -> TrainedModel:
    """Random weights, by seed: smaller where a product sums more terms or adds to the residual stream."""
    generator = torch.Generator().manual_seed(seed)
    depth = (2 * model.shape.layers) ** 0.5
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith("scale"):
                continue
            terms = weights.shape[1]
            spread = 0.02 if name in ("embedding",) else 0.5 * terms**-0.5
            spread = spread / depth if name.endswith((".o", ".down")) else spread
            weights.normal_(0.0, spread, generator=generator)
    return model

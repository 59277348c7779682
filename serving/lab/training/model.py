"""The model: exactly the arithmetic of transformers' Qwen3-MoE, arranged for training on a CPU.

A batch is one long row of tokens, made of segments that don't see each other.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from serving.lab.training.attention import attended
from serving.lab.training.experts import ExpertLayer, TrainedRouting
from serving.lab.training.shape import ModelShape


@dataclass(frozen=True, slots=True)
class TokenPlaces:
    """Of a batch: its segments' lengths, cosines and sines of the tokens' rotary angles [tokens, size / 2], and the
    type of the products with attention's matrices."""

    lengths: list[int]
    cos: torch.Tensor
    sin: torch.Tensor
    narrow: torch.dtype


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


class NarrowProduct(torch.autograd.Function):
    """Rows times a matrix, with products in a narrower type: several times as fast, where the CPU has it."""

    @staticmethod
    def forward(context: Any, rows: torch.Tensor, matrix: torch.Tensor, narrow: torch.dtype) -> torch.Tensor:
        """`rows` [n, a] and `matrix` [b, a] give [n, b], in the rows' own type."""
        ours, theirs = rows.to(narrow), matrix.to(narrow)
        context.save_for_backward(ours, theirs)
        return (ours @ theirs.T).to(rows.dtype)

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Return the gradients of the rows and of the matrix."""
        ours, theirs = context.saved_tensors
        errors = grad.to(ours.dtype)
        return (errors @ theirs).to(grad.dtype), (errors.T @ ours).to(grad.dtype), None


class Rotation(torch.autograd.Function):
    """Rotary positions: element i together with element i + half, turned by the angle of its token."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """`x` [heads, tokens, size] is turned by the angles of `cos` and `sin` [tokens, size / 2]."""
        context.save_for_backward(cos, sin)
        return turned(x, cos, sin, 1.0)

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return the gradient of `x`: it is turned back."""
        cos, sin = context.saved_tensors
        return turned(grad, cos, sin, -1.0), None, None


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, way: float) -> torch.Tensor:
    """Return `x` turned by the angles: forwards with a `way` of 1, back with one of -1."""
    out = torch.empty_like(x)
    first, second = x.chunk(2, -1)
    to_first, to_second = out.chunk(2, -1)
    torch.mul(first, cos, out=to_first).addcmul_(second, sin, value=-way)
    torch.mul(second, cos, out=to_second).addcmul_(first, sin, value=way)
    return out


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

    def forward(self, x: torch.Tensor, place: TokenPlaces) -> torch.Tensor:
        """Return what each token takes from those before it in its segment."""
        rows = NarrowProduct.apply(x, torch.cat([self.q, self.k, self.v]), place.narrow)
        rows = rows.unflatten(1, (self.heads + 2 * self.kv_heads, -1)).transpose(0, 1)
        q, k, v = rows.split([self.heads, self.kv_heads, self.kv_heads])
        q, k = (Rotation.apply(rows, place.cos, place.sin) for rows in (self.q_norm(q), self.k_norm(k)))
        segments = zip(*(rows.split(place.lengths, 1) for rows in (q, k, v)), strict=True)
        seen = [attended(q, k, v) for q, k, v in segments]
        return NarrowProduct.apply(torch.cat(seen, 1).transpose(0, 1).flatten(1), self.o, place.narrow)


class TransformerLayer(nn.Module):
    """Attention, then experts, each normed and added to what came in."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.attention_norm = Norm(shape.hidden, shape.epsilon)
        self.attention = Attention(shape)
        self.experts_norm = Norm(shape.hidden, shape.epsilon)
        self.experts = ExpertLayer(shape)

    def forward(self, x: torch.Tensor, place: TokenPlaces) -> tuple[torch.Tensor, TrainedRouting]:
        """Return the tokens after this layer, and where it sent them."""
        x = x + self.attention(self.attention_norm(x), place)
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

    def forward(
        self, ids: torch.Tensor, lengths: list[int], narrow: torch.dtype = torch.float32
    ) -> tuple[torch.Tensor, list[TrainedRouting]]:
        """Return the last hidden state of each token, and each layer's routing; attention's products with its matrices
        are in `narrow`."""
        x = functional.embedding(ids, self.embedding)
        place = places(lengths, self.shape, narrow)
        routings = []
        for layer in self.layers:
            x, routing = layer(x, place)
            routings.append(routing)
        return self.norm(x), routings


def places(lengths: list[int], shape: ModelShape, narrow: torch.dtype) -> TokenPlaces:
    """Return where the tokens of these segments are; positions count from a segment's start."""
    at = torch.tensor(list(chain.from_iterable(map(range, lengths))), dtype=torch.float32)
    rate = shape.theta ** -(torch.arange(0, shape.head_size, 2, dtype=torch.float32) / shape.head_size)
    angles = at[:, None] * rate
    return TokenPlaces(lengths, angles.cos(), angles.sin(), narrow)


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

"""Grouped-query attention with rotary positions and normalised queries and keys (Qwen3), over a KV cache."""

from collections.abc import Callable

import torch
import torch.nn.functional as functional
from torch import Tensor

from serving.drafting.checkpoint import LayerWeights, WeightsShape
from serving.lab.self_speculation.cache import LayerCache

KvView = Callable[[Tensor], Tensor]
"""What a draft sees of the cache's keys or values [..., head dim]: Cassandra's reads only a part of them."""


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x / rms(x) * weight, over the last axis."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight


def rotation(shape: WeightsShape, at: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine [sequences, n, 1, head dim] of the positions `at` [sequences, n]."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    angles = at[..., None] * shape.rope_theta**-exponents
    angles = torch.cat([angles, angles], dim=-1)[:, :, None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def attention(
    x: Tensor, layer: LayerWeights[Tensor], index: int, shape: WeightsShape, place: "AttentionPlace"
) -> Tensor:
    """Return what heads [sequences, n, heads * head dim] make of x [sequences, n, hidden], before the output matrix.

    The keys and values of x go into the cache first.
    """
    sequences, new, _ = x.shape
    q = _heads(functional.linear(x, layer.q), shape.head_dim)
    k = _heads(functional.linear(x, layer.k), shape.head_dim)
    v = _heads(functional.linear(x, layer.v), shape.head_dim)
    q = _rotated(rms_norm(q, layer.q_norm, shape.norm_epsilon), place)
    k = _rotated(rms_norm(k, layer.k_norm, shape.norm_epsilon), place)
    place.cache.write(index, place.at, k, v)
    keys, values = (store[index][:, : place.reach] for store in (place.cache.keys, place.cache.values))
    if place.view is not None:
        keys, values = place.view(keys), place.view(values)
    # Heads that share keys are laid behind each other: [sequences, KV heads, heads of each * n, head dim].
    group = shape.heads // shape.kv_heads
    q = q.view(sequences, new, shape.kv_heads, group, -1).permute(0, 2, 3, 1, 4).flatten(2, 3)
    mixed = functional.scaled_dot_product_attention(q, keys.transpose(1, 2), values.transpose(1, 2), place.mask(group))
    mixed = mixed.view(sequences, shape.kv_heads, group, new, -1).permute(0, 3, 1, 2, 4)
    return mixed.reshape(sequences, new, -1)


class AttentionPlace:
    """Where the new tokens of a pass stand: n behind the end of each sequence in the cache."""

    def __init__(self, shape: WeightsShape, cache: LayerCache, new: int, view: KvView | None) -> None:
        self.cache = cache
        self.view = view
        self.at = cache.lengths[:, None] + torch.arange(new)
        self.reach = int(cache.lengths.max()) + new
        self.cosine, self.sine = rotation(shape, self.at, cache.keys.dtype)
        self._seen = torch.arange(self.reach) <= self.at[..., None]

    def mask(self, group: int) -> Tensor:
        """Who sees what, [sequences, 1, group * n, reach]: each token all positions up to its own."""
        return self._seen.repeat(1, group, 1)[:, None]


def _heads(x: Tensor, head_dim: int) -> Tensor:
    return x.view(*x.shape[:-1], -1, head_dim)


def _rotated(x: Tensor, place: AttentionPlace) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * place.cosine + torch.cat([-second, first], dim=-1) * place.sine

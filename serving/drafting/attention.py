"""Grouped-query attention with rotary positions and normalised queries and keys (Qwen3), over what a sequence has."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.drafting.checkpoint import LayerWeights, WeightsShape
from serving.drafting.weights import Floats


class KeyValues(NamedTuple):
    """Keys and values [layers, tokens, KV heads, head dim]."""

    keys: Floats
    values: Floats

    def upto(self, tokens: int) -> "KeyValues":
        """Return those of the first tokens."""
        return KeyValues(self.keys[:, :tokens], self.values[:, :tokens])

    def then(self, other: "KeyValues") -> "KeyValues":
        """Return these and others behind them."""
        return KeyValues(*(np.concatenate(pair, axis=1) for pair in zip(self, other, strict=True)))


class PassTokens(NamedTuple):
    """The tokens of one sequence in a pass: their ids and positions [n], what the sequence `has`, all of which they see
    up to `seen`, and which of what lies behind, themselves last, each of them `sees` [n, any]."""

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    has: KeyValues
    seen: int
    sees: NDArray[np.bool_]


def rms_norm(x: Floats, weight: Floats, epsilon: float) -> Floats:
    """x / rms(x) * weight, over the last axis."""
    normed: Floats = x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + np.float32(epsilon)) * weight
    return normed


def softmax(x: Floats) -> Floats:
    """Probabilities over the last axis."""
    raised: Floats = np.exp(x - x.max(axis=-1, keepdims=True))
    raised /= raised.sum(axis=-1, keepdims=True)
    return raised


def rotation(shape: WeightsShape, positions: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Cosine and sine [n, 1, head dim] of positions [n]."""
    exponents = np.arange(0, shape.head_dim, 2) / shape.head_dim
    angles = positions[:, None] * shape.rope_theta**-exponents
    angles = np.concatenate([angles, angles], axis=-1)[:, None]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def attended(
    x: Floats,
    layer: LayerWeights[Floats],
    index: int,
    shape: WeightsShape,
    sequences: list[PassTokens],
    turned: tuple[Floats, Floats],
) -> tuple[Floats, Floats, Floats]:
    """Return what heads [n, heads * head dim] make of x [n, hidden], before the output matrix, and its keys and values.

    The rows of x are the tokens of `sequences`, one behind the other.
    """
    q, k, v = (_heads(x @ matrix.T, shape.head_dim) for matrix in (layer.q, layer.k, layer.v))
    q = _rotated(rms_norm(q, layer.q_norm, shape.norm_epsilon), *turned)
    k = _rotated(rms_norm(k, layer.k_norm, shape.norm_epsilon), *turned)
    mixed, start = np.empty((len(x), shape.heads * shape.head_dim), dtype=np.float32), 0
    for tokens in sequences:
        own = slice(start, start + len(tokens.ids))
        keys, values = (np.concatenate([had[index], new[own]]) for had, new in zip(tokens.has, (k, v), strict=True))
        mixed[own] = _mixed(q[own], keys, values, tokens)
        start = own.stop
    return mixed, k, v


def _mixed(q: Floats, keys: Floats, values: Floats, tokens: PassTokens) -> Floats:
    """Return the heads' outputs [n, heads * head dim] of one sequence's queries [n, heads, head dim]."""
    new, heads, size = q.shape
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    # Heads that share keys are laid behind each other: [KV heads, heads of each * n, head dim].
    asked = q.reshape(new, kv_heads, group, size).transpose(1, 2, 0, 3).reshape(kv_heads, group * new, size)
    scores = asked @ keys.transpose(1, 2, 0) * np.float32(size**-0.5)
    hidden = np.broadcast_to(~tokens.sees, (group, *tokens.sees.shape)).reshape(group * new, -1)
    scores[:, :, tokens.seen :][:, hidden] = -np.inf
    by_head: Floats = softmax(scores) @ values.transpose(1, 0, 2)
    return _by_token(by_head, group)


def _by_token(by_head: Floats, group: int) -> Floats:
    """Return [n, heads * head dim] of [KV heads, heads of each * n, head dim]."""
    kv_heads, rows, size = by_head.shape
    mixed: Floats = by_head.reshape(kv_heads, group, rows // group, size).transpose(2, 0, 1, 3)
    flat: Floats = mixed.reshape(rows // group, kv_heads * group * size)
    return flat


def _heads(x: Floats, size: int) -> Floats:
    return x.reshape(len(x), -1, size)


def _rotated(x: Floats, cosine: Floats, sine: Floats) -> Floats:
    first, second = np.split(x, 2, axis=-1)
    turned: Floats = x * cosine + np.concatenate([-second, first], axis=-1) * sine
    return turned

"""One pass of a Qwen3-MoE over the tokens of several sequences, its routing free or confined to a pool of experts."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from device_model.step import NO_EXPERT, IntArray
from serving.drafting.attention import KeyValues, PassTokens, attended, rms_norm, rotation, softmax
from serving.drafting.checkpoint import LayerWeights, WeightsShape
from serving.drafting.weights import Floats, Weights

Pool = NDArray[np.bool_]
"""The experts [layers, experts] that a pass may use."""


class Passed(NamedTuple):
    """What a pass leaves behind: final hidden states [n, hidden], keys and values of its tokens, and their experts
    [n, layers, top_k]: `wanted` by the routers, by falling score, and those computed, `NO_EXPERT` where a pool has
    fewer."""

    hidden: Floats
    kv: KeyValues
    wanted: IntArray
    computed: IntArray


def forward(weights: Weights, sequences: list[PassTokens], pool: Pool | None = None) -> Passed:
    """Carry out a pass."""
    shape = weights.shape
    x = weights.embedding[np.concatenate([tokens.ids for tokens in sequences])]
    turned = rotation(shape, np.concatenate([tokens.positions for tokens in sequences]))
    kv, wanted, computed = [], [], []
    for index, layer in enumerate(weights.layers):
        normed = rms_norm(x, layer.input_norm, shape.norm_epsilon)
        mixed, k, v = attended(normed, layer, index, shape, sequences, turned)
        x = x + mixed @ layer.o.T
        normed = rms_norm(x, layer.post_norm, shape.norm_epsilon)
        asked, chosen, shares = _route(normed, layer, shape, None if pool is None else pool[index])
        x = x + _experts(normed, layer, chosen, shares)
        kv.append((k, v))
        wanted.append(asked)
        computed.append(np.where(shares > 0, chosen, NO_EXPERT))
    keys, values = (np.stack(each) for each in zip(*kv, strict=True))
    hidden = rms_norm(x, weights.norm, shape.norm_epsilon)
    return Passed(hidden, KeyValues(keys, values), np.stack(wanted, axis=1), np.stack(computed, axis=1))


def logits(weights: Weights, hidden: Floats) -> Floats:
    """[n, vocabulary] of final hidden states [n, hidden]."""
    found: Floats = hidden @ weights.head.T
    return found


def _route(
    x: Floats, layer: LayerWeights[Floats], shape: WeightsShape, pool: NDArray[np.bool_] | None
) -> tuple[IntArray, IntArray, Floats]:
    """Return the experts wanted and those chosen of the pool [n, top_k], and the latter's weights: 0 of one outside.

    As ELMoE-3D's throttling (4.2): the highest-scoring candidates of the pool are taken, their scores are not changed,
    and the weights of the chosen are normalised among them.
    """
    scores = softmax(x @ layer.router.T)
    wanted = _best(scores, shape.top_k)
    confined = scores if pool is None else scores * pool
    chosen = wanted if pool is None else _best(confined, shape.top_k)
    weights = np.take_along_axis(confined, chosen, axis=1)
    if shape.normalised:
        weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return wanted, chosen, weights


def _best(scores: Floats, count: int) -> IntArray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def _experts(x: Floats, layer: LayerWeights[Floats], chosen: IntArray, weights: Floats) -> Floats:
    """Return the experts' outputs, weighted and summed by token: [n, hidden]."""
    summed = np.zeros_like(x)
    for expert in np.unique(chosen[weights > 0]).tolist():
        rows, places = np.nonzero((chosen == expert) & (weights > 0))
        gate, up = np.split(x[rows] @ layer.gate_up[expert].T, 2, axis=1)
        # silu(gate) * up
        summed[rows] += weights[rows, places, None] * ((gate / (1 + np.exp(-gate)) * up) @ layer.down[expert].T)
    return summed

"""The forward pass of a Qwen3-MoE over ragged sequences, for a target and for the drafts made of it."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
import torch.nn.functional as functional
from torch import Tensor

from serving.drafting.checkpoint import LayerWeights
from serving.lab.self_speculation.attention import AttentionPlace, KvView, attention, rms_norm
from serving.lab.self_speculation.cache import LayerCache
from serving.lab.self_speculation.experts import ExpertRouting, activated, combined, gather, route
from serving.lab.self_speculation.weights import ModelWeights


class Watch(Protocol):
    """Sees the inputs of every matrix: what Wanda calibrates on."""

    def dense(self, names: tuple[str, ...], layer: int, inputs: Tensor) -> None:
        """See inputs [sequences, n, K] of one or more dense matrices."""

    def experts(self, name: str, layer: int, inputs: Tensor) -> None:
        """See inputs [experts, slots, K] of the experts' matrices; zeros where a slot is empty."""


@dataclass
class Pass:
    """One pass: what it runs under, and the routing that it leaves behind, one for each layer that ran."""

    pools: Tensor | None = None  # [sequences, layers, experts], True where a token may go
    exit_after: int | None = None  # layers that run; None is all
    view: KvView | None = None
    watch: Watch | None = None
    routings: list[ExpertRouting] = field(default_factory=list)


def forward(weights: ModelWeights, tokens: Tensor, cache: LayerCache, run: Pass | None = None) -> Tensor:
    """Return final hidden states [sequences, n, hidden] of new `tokens` [sequences, n], which follow what is cached.

    The tokens' keys and values are written to the cache, but its lengths stay: whoever calls knows which tokens count.
    """
    run = run or Pass()
    place = AttentionPlace(weights.shape, cache, tokens.shape[1], run.view)
    x = functional.embedding(tokens, weights.embedding)
    for index, layer in enumerate(weights.layers[: run.exit_after]):
        x = x + _attended(x, layer, index, weights, place, run)
        x = x + _experts(x, layer, index, weights, run)
    return rms_norm(x, weights.norm, weights.shape.norm_epsilon)


def logits(weights: ModelWeights, hidden: Tensor) -> Tensor:
    """[..., vocabulary] of final hidden states [..., hidden]."""
    return functional.linear(hidden, weights.head)


def new_cache(weights: ModelWeights, sequences: int, positions: int) -> LayerCache:
    """Return an empty cache for `sequences` of at most `positions` tokens."""
    width = (weights.shape.kv_heads, weights.shape.head_dim)
    return LayerCache(len(weights.layers), sequences, positions, width, weights.embedding.dtype)


def prefill(
    weights: ModelWeights, prompts: list[list[int]], positions: int, run: Pass | None = None
) -> tuple[LayerCache, Tensor]:
    """Return a cache that holds `prompts`, of any lengths, and the logits [sequences, vocabulary] that follow each.

    Shorter prompts are padded behind their end. What the padding writes is overwritten before it is ever read.
    """
    cache = new_cache(weights, len(prompts), positions)
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    longest = int(lengths.max())
    padded = torch.tensor([prompt + [0] * (longest - len(prompt)) for prompt in prompts])
    hidden = forward(weights, padded, cache, run)
    cache.lengths = lengths
    return cache, logits(weights, hidden[torch.arange(len(prompts)), lengths - 1])


def _attended(
    x: Tensor, layer: LayerWeights[Tensor], index: int, weights: ModelWeights, place: AttentionPlace, run: Pass
) -> Tensor:
    shape = weights.shape
    normed = rms_norm(x, layer.input_norm, shape.norm_epsilon)
    mixed = attention(normed, layer, index, shape, place)
    if run.watch is not None:
        run.watch.dense(("q", "k", "v"), index, normed)
        run.watch.dense(("o",), index, mixed)
    return functional.linear(mixed, layer.o)


def _experts(x: Tensor, layer: LayerWeights[Tensor], index: int, weights: ModelWeights, run: Pass) -> Tensor:
    normed = rms_norm(x, layer.post_norm, weights.shape.norm_epsilon).flatten(0, 1)
    pool = None if run.pools is None else run.pools[:, index].repeat_interleave(x.shape[1], dim=0)
    routing = route(normed, layer, weights.shape, pool)
    run.routings.append(routing)
    buckets = gather(normed, routing.chosen, weights.shape.experts)
    hidden = activated(buckets.inputs, layer)
    if run.watch is not None:
        run.watch.experts("gate_up", index, buckets.inputs)
        run.watch.experts("down", index, hidden)
    return combined(hidden, layer, buckets, routing).view_as(x)

"""A layer of experts: routing, throttled or free, and the experts' work, gathered by expert."""

from typing import NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor

from serving.drafting.checkpoint import LayerWeights, WeightsShape


class ExpertRouting(NamedTuple):
    """Where each token [tokens] goes."""

    wanted: Tensor  # [tokens, top-k] experts, as the router has it without a pool
    chosen: Tensor  # [tokens, top-k] experts that are computed; those outside the pool have the weight 0
    weights: Tensor  # [tokens, top-k]


class Buckets(NamedTuple):
    """Tokens laid out by expert: the input of expert e's s-th token is at [e, s], zeros behind its last."""

    inputs: Tensor  # [experts, slots, hidden]
    place: Tensor  # [tokens * top-k]: where in the flattened [experts * slots] each choice went


def route(x: Tensor, layer: LayerWeights[Tensor], shape: WeightsShape, pool: Tensor | None) -> ExpertRouting:
    """Top-k of the router's probabilities for x [tokens, hidden]; with a `pool` [tokens, experts], of those in it.

    As ELMoE-3D's throttling (4.2): the highest-scoring candidates of the pool are taken, their scores are not changed,
    and the weights of the chosen are normalised among them. A pool smaller than top-k has a token use fewer.
    """
    scores = functional.linear(x, layer.router).softmax(-1)
    weights, wanted = scores.topk(shape.top_k, dim=-1)
    chosen = wanted
    if pool is not None:
        weights, chosen = (scores * pool).topk(shape.top_k, dim=-1)
    if shape.normalised:
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
    return ExpertRouting(wanted, chosen, weights)


def gather(x: Tensor, chosen: Tensor, experts: int) -> Buckets:
    """Tokens x [tokens, hidden] laid out by the experts [tokens, top-k] that they go to."""
    top_k = chosen.shape[1]
    flat = chosen.flatten()
    order = flat.argsort(stable=True)
    counts = torch.bincount(flat, minlength=experts)
    slots = int(counts.max())
    starts = counts.cumsum(0) - counts
    place = torch.empty_like(flat)
    place[order] = flat[order] * slots + torch.arange(len(flat)) - starts[flat[order]]
    inputs = x.new_zeros(experts * slots, x.shape[1])
    inputs[place] = x.repeat_interleave(top_k, dim=0)
    return Buckets(inputs.view(experts, slots, -1), place)


def activated(inputs: Tensor, layer: LayerWeights[Tensor]) -> Tensor:
    """Return what enters the down matrices: silu(gate) * up, [experts, slots, intermediate]."""
    gate, up = torch.bmm(inputs, layer.gate_up.transpose(1, 2)).chunk(2, dim=-1)
    return functional.silu(gate) * up


def combined(hidden: Tensor, layer: LayerWeights[Tensor], buckets: Buckets, routing: ExpertRouting) -> Tensor:
    """Return the experts' outputs, weighted and summed by token: [tokens, hidden]."""
    outputs = torch.bmm(hidden, layer.down.transpose(1, 2)).flatten(0, 1)[buckets.place]
    tokens, top_k = routing.weights.shape
    return (outputs.view(tokens, top_k, -1) * routing.weights[..., None]).sum(1)

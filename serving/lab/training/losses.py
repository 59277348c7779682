"""What training makes small: the cross-entropy of the next token, and how unevenly the experts are used."""

from typing import Any

import torch

from serving.lab.training.batches import ASKED
from serving.lab.training.experts import TrainedRouting

ROWS = 256  # tokens whose logits are in memory at a time: they stay in a processor's cache
UNLIKELIEST = 1e-30  # the least share that a target is taken to have
ROUTER_Z = 1e-4
IDLE = 0.3  # of an even share: whoever has less of all tokens together is asked for, so that no expert dies
IDLENESS = 1e-2
DISTINCT = 0.4  # bits by which a topic's use of the experts is to be apart from that of all topics together
MOST_BITS = 2.0
SMALLEST = 1e-5


class CrossEntropy(torch.autograd.Function):
    """Cross-entropies of hidden states against targets; gradients are made on the way, so logits are not kept."""

    @staticmethod
    def forward(
        context: Any,
        hidden: torch.Tensor,
        output: torch.Tensor,
        targets: torch.Tensor,
        weights: torch.Tensor,
        narrow: torch.dtype,
    ) -> torch.Tensor:
        """Return the weighted sum of the cross-entropies; products are in `narrow`, sums in the states' own type."""
        to_hidden, to_output = torch.empty_like(hidden), torch.zeros_like(output)
        total = hidden.new_zeros(())
        states, matrix = hidden.to(narrow), output.to(narrow)
        transposed = matrix.T.contiguous()
        parts = (tensor.split(ROWS) for tensor in (states, targets, weights, to_hidden))
        for rows, target, weight, change in zip(*parts, strict=True):
            shares = torch.softmax(rows @ transposed, -1, dtype=hidden.dtype)
            total -= shares.gather(1, target[:, None])[:, 0].clamp_min(UNLIKELIEST).log() @ weight
            shares[torch.arange(len(target)), target] -= 1
            errors = shares.to(narrow)
            change.copy_(errors @ matrix).mul_(weight[:, None])
            to_output += errors.T @ (rows * weight[:, None].to(narrow))
        context.save_for_backward(to_hidden, to_output)
        return total

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None, None]:
        """Return the gradients that `forward` made, scaled."""
        to_hidden, to_output = context.saved_tensors
        return to_hidden * grad, to_output * grad, None, None, None


def cross_entropy(
    hidden: torch.Tensor,
    output: torch.Tensor,
    targets: torch.Tensor,
    weights: torch.Tensor,
    narrow: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Return the weighted mean of the cross-entropies, in nats a token; the output's products are in `narrow`, and
    tokens without weight cost none."""
    weighed = weights.nonzero()[:, 0]
    rows, targets, weights = (tensor.index_select(0, weighed) for tensor in (hidden, targets, weights))
    return CrossEntropy.apply(rows, output, targets, weights, narrow) / weights.sum()


def thinned(weights: torch.Tensor) -> torch.Tensor:
    """Return weights of the same sum, about, that are 0 or 1: of the tokens that weigh `ASKED`, one in 1 / `ASKED`
    weighs 1, so that a third of a batch costs next to nothing."""
    light = weights == ASKED
    every = round(1 / ASKED)
    return torch.where(light, (light.cumsum(0) % every == 0).to(weights.dtype), weights)


def used(routing: TrainedRouting, topics: torch.Tensor, count: int) -> torch.Tensor:
    """Return what share of the routed tokens are of each of `count` topics and at each expert; all sum to one."""
    experts = routing.shares.shape[1]
    places = topics[:, None] * experts + routing.chosen
    return places.flatten().bincount(minlength=count * experts).view(count, experts) / places.numel()


def batch_balance(routing: TrainedRouting, used: torch.Tensor) -> torch.Tensor:
    """Over all tokens together: 1 if the experts are used evenly, up to their number if only one is (Switch).

    `used` is each expert's share over the last steps, so that no single batch need be balanced in itself; no gradient
    flows through it in any case.
    """
    return len(used) * used @ routing.shares.mean(0)


def idleness(routing: TrainedRouting, used: torch.Tensor) -> torch.Tensor:
    """Return what those experts lack that have less than `IDLE` of an even share; raising their scores lowers it."""
    lacking = (1 - used * len(used) / IDLE).clamp_min(0)
    return -len(used) * lacking @ routing.shares.mean(0)


def sameness(routing: TrainedRouting, topics: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
    """Fall as topics come to use experts of their own, as far as a topic's use is less than `DISTINCT` bits apart from
    the use by all; its gradient is that of the mutual information of topics and experts.

    `topics` has each token's, and `used` [topics, experts] is the use over the last steps.
    """
    of_all, of_each = used.sum(0), used / used.sum(1, keepdim=True).clamp_min(SMALLEST)
    bits = ((of_each + SMALLEST) / (of_all + SMALLEST)).log2().clamp(-MOST_BITS, MOST_BITS)
    apart = (of_each * bits).sum(1, keepdim=True)
    prices = -(1 - apart / DISTINCT).clamp_min(0) * bits
    return (routing.shares * prices[topics]).sum(1).mean()


def router_z(routing: TrainedRouting) -> torch.Tensor:
    """Grows with the router's scores: kept small, they stay exact."""
    return routing.scores.logsumexp(-1).square().mean()


def router_loss(
    routings: list[TrainedRouting], topics: torch.Tensor, used: torch.Tensor, weights: tuple[float, float]
) -> torch.Tensor:
    """Return what all layers' routers are asked to keep small.

    `used` [layers, topics, experts] is the use over the last steps, and `weights` are of its evenness over all topics
    together and of the topics' sameness. No term asks for evenness within a segment or a topic.
    """
    balance, same = weights
    parts = [
        balance * batch_balance(routing, share.sum(0))
        + IDLENESS * idleness(routing, share.sum(0))
        + same * sameness(routing, topics, share)
        + ROUTER_Z * router_z(routing)
        for routing, share in zip(routings, used, strict=True)
    ]
    return torch.stack(parts).sum()

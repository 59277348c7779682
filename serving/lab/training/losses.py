"""What training makes small: the cross-entropy of the next token, and how unevenly the experts are used."""

from typing import Any

import torch

from serving.lab.training.experts import TrainedRouting

ROWS = 1024  # tokens whose logits are in memory at a time
SEGMENT_BALANCE = 1e-4  # small: a segment is about one topic, and a topic should have experts of its own
ROUTER_Z = 1e-4


class CrossEntropy(torch.autograd.Function):
    """Cross-entropies of hidden states against targets; gradients are made on the way, so logits are not kept."""

    @staticmethod
    def forward(
        context: Any, hidden: torch.Tensor, output: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Return the weighted sum of the cross-entropies."""
        to_hidden, to_output = torch.empty_like(hidden), torch.zeros_like(output)
        total = hidden.new_zeros(())
        parts = (tensor.split(ROWS) for tensor in (hidden, targets, weights, to_hidden))
        for rows, target, weight, change in zip(*parts, strict=True):
            shares = torch.log_softmax(rows @ output.T, -1)
            total -= shares.gather(1, target[:, None])[:, 0] @ weight
            shares.exp_()
            shares[torch.arange(len(target)), target] -= 1
            shares *= weight[:, None]
            torch.mm(shares, output, out=change)
            to_output.addmm_(shares.T, rows)
        context.save_for_backward(to_hidden, to_output)
        return total

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        """Return the gradients that `forward` made, scaled."""
        to_hidden, to_output = context.saved_tensors
        return to_hidden * grad, to_output * grad, None, None


def cross_entropy(
    hidden: torch.Tensor, output: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Return the weighted mean of the cross-entropies, in nats a token."""
    return CrossEntropy.apply(hidden, output, targets, weights) / weights.sum()


def used(routing: TrainedRouting) -> torch.Tensor:
    """Each expert's share of the routed tokens, which sum to one."""
    experts = routing.shares.shape[1]
    return routing.chosen.flatten().bincount(minlength=experts) / routing.chosen.numel()


def batch_balance(routing: TrainedRouting, used: torch.Tensor) -> torch.Tensor:
    """Over all tokens together: 1 if the experts are used evenly, up to their number if only one is (Switch).

    `used` is each expert's share of the whole last step, so that a part of a batch need not be balanced in itself; no
    gradient flows through it in any case.
    """
    return len(used) * used @ routing.shares.mean(0)


def segment_balance(routing: TrainedRouting, lengths: list[int]) -> torch.Tensor:
    """Return the balance within each segment, by its own use, as the mean over them."""
    experts, active = routing.shares.shape[1], routing.chosen.shape[1]
    sizes = torch.tensor(lengths)
    segment = torch.arange(len(lengths)).repeat_interleave(sizes)
    places = segment[:, None] * experts + routing.chosen
    used = places.flatten().bincount(minlength=len(lengths) * experts).view(-1, experts) / (active * sizes[:, None])
    shares = routing.shares.new_zeros(len(lengths), experts).index_add(0, segment, routing.shares) / sizes[:, None]
    return experts * (used * shares).sum(1).mean()


def router_z(routing: TrainedRouting) -> torch.Tensor:
    """Grows with the router's scores: kept small, they stay exact."""
    return routing.scores.logsumexp(-1).square().mean()


def router_loss(routings: list[TrainedRouting], lengths: list[int], used: torch.Tensor, balance: float) -> torch.Tensor:
    """Return what all layers' routers are asked to keep small, weighted.

    `used` [layers, experts] is the last step's use, and `balance` what evenness over the whole batch weighs.
    """
    parts = [
        balance * batch_balance(routing, share)
        + SEGMENT_BALANCE * segment_balance(routing, lengths)
        + ROUTER_Z * router_z(routing)
        for routing, share in zip(routings, used, strict=True)
    ]
    return torch.stack(parts).sum()

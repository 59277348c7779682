"""A layer's experts: which of them a token goes to, and what they make of it.

The tokens are sorted by expert, so that each expert is one matrix product over the rows that are its own: exactly the
arithmetic that is needed, and no padding.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from serving.lab.training.shape import ModelShape


@dataclass(frozen=True, slots=True)
class TrainedRouting:
    """Of one layer, by token: the router's scores, their softmax, and the experts chosen with their weights."""

    scores: torch.Tensor
    shares: torch.Tensor
    chosen: torch.Tensor
    weights: torch.Tensor


class GroupedProduct(torch.autograd.Function):
    """Rows sorted by group, times the matrix of each row's group."""

    @staticmethod
    def forward(context: Any, rows: torch.Tensor, stack: torch.Tensor, counts: list[int]) -> torch.Tensor:
        """`rows` [n, a] and `stack` [groups, a, b] give [n, b]; group g has the next `counts[g]` rows."""
        context.save_for_backward(rows, stack)
        context.counts = counts
        out = rows.new_empty(rows.shape[0], stack.shape[2])
        for mine, matrix, result in zip(rows.split(counts), stack, out.split(counts), strict=True):
            torch.mm(mine, matrix, out=result)
        return out

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Gradients of the rows and of the matrices."""
        rows, stack = context.saved_tensors
        to_rows, to_stack = torch.empty_like(rows), torch.empty_like(stack)
        parts = (tensor.split(context.counts) for tensor in (rows, grad.contiguous(), to_rows))
        for mine, theirs, result, matrix, change in zip(*parts, stack, to_stack, strict=True):
            torch.mm(theirs, matrix.T, out=result)
            torch.mm(mine.T, theirs, out=change)
        return to_rows, to_stack, None


class ExpertLayer(nn.Module):
    """A router and the experts behind it."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.active = shape.active
        wide, narrow = shape.hidden, shape.expert_hidden
        self.router = nn.Parameter(torch.empty(shape.experts, wide))
        self.gate = nn.Parameter(torch.empty(shape.experts, wide, narrow))
        self.up = nn.Parameter(torch.empty(shape.experts, wide, narrow))
        self.down = nn.Parameter(torch.empty(shape.experts, narrow, wide))

    def route(self, x: torch.Tensor) -> TrainedRouting:
        """Return the best few experts of each token, their softmax shares scaled to sum to one."""
        scores = x @ self.router.T
        shares = scores.softmax(-1)
        best, chosen = shares.topk(self.active, dim=-1)
        return TrainedRouting(scores, shares, chosen, best / best.sum(-1, keepdim=True))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, TrainedRouting]:
        """Return what the chosen experts add to each token; weighted before `down`, where rows are narrow."""
        routing = self.route(x)
        order = routing.chosen.flatten().argsort(stable=True)
        counts = routing.chosen.flatten().bincount(minlength=len(self.router)).tolist()
        token = order // self.active
        rows = GroupedProduct.apply(x.index_select(0, token), torch.cat([self.gate, self.up], -1), counts)
        gate, up = rows.chunk(2, -1)
        weights = routing.weights.flatten().index_select(0, order)
        made = GroupedProduct.apply(functional.silu(gate) * up * weights[:, None], self.down, counts)
        return torch.zeros_like(x).index_add(0, token, made), routing

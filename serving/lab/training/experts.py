"""A layer's experts: which of them a token goes to, and what they make of it.

The tokens are sorted by expert, so that each expert is one matrix product over the rows that are its own: exactly the
arithmetic that is needed, and no padding.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import grouped_mm

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
    def forward(context: Any, rows: torch.Tensor, stack: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """`rows` [n, a] and `stack` [groups, a, b] give [n, b]; group g has the rows before `ends[g]` [groups]."""
        context.save_for_backward(rows, stack, ends)
        return grouped_mm(rows, stack, offs=ends)

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Gradients of the rows and of the matrices."""
        rows, stack, ends = context.saved_tensors
        grad = grad.contiguous()
        return grouped_mm(grad, stack.mT, offs=ends), grouped_mm(rows.T, grad, offs=ends), None


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
        ends = routing.chosen.flatten().bincount(minlength=len(self.router)).cumsum(0, dtype=torch.int32)
        token = order // self.active
        rows = GroupedProduct.apply(x.index_select(0, token), torch.cat([self.gate, self.up], -1), ends)
        gate, up = rows.chunk(2, -1)
        weights = routing.weights.flatten().index_select(0, order)
        made = GroupedProduct.apply(functional.silu(gate) * up * weights[:, None], self.down, ends)
        return torch.zeros_like(x).index_add(0, token, made), routing

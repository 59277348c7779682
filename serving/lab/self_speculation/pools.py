"""Which experts a draft may use: the hot ones of a batch, or any (ELMoE-3D, 4.2 and 7.3 B)."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from serving.drafting.checkpoint import WeightsShape
from serving.lab.self_speculation.experts import ExpertRouting
from serving.lab.self_speculation.rejection import generator


class PoolPlan(NamedTuple):
    """How pools are chosen.

    Hotness is the one-hot routing that the router wanted, summed over the tokens of all sequences that share a pool. It
    begins with the prompts' and goes on with the draft tokens'; the pool stays as it is within a draft phase. The paper
    accumulates "across preceding draft steps" and also says "from the current draft phase". The default is the latter:
    with a `memory` near 0 the latest phase decides, and earlier ones only among experts that it used alike. With 1 all
    phases count.
    """

    share: float  # of the experts
    kind: Literal["hot", "random"] = "hot"
    sharing: int = 1  # sequences that share a pool: the batch that is emulated
    scope: Literal["layer", "all"] = "layer"  # the share is of each layer's experts, or of all (layer, expert) pairs
    memory: float = 0.01  # what a draft phase leaves of the hotness before it


class Pools:
    """The pools of a run, one for each `sharing` sequences."""

    def __init__(self, plan: PoolPlan, shape: WeightsShape, layers: int, sequences: int, seed: int) -> None:
        self._plan = plan
        self._groups = torch.arange(sequences) // plan.sharing
        self._hot = torch.zeros(int(self._groups[-1]) + 1, layers, shape.experts)
        self._latest = torch.zeros_like(self._hot)
        self._random = generator(seed)
        self._mask = torch.zeros_like(self._hot, dtype=torch.bool)

    def masks(self) -> Tensor:
        """[sequences, layers, experts], True where a token may go."""
        return self._mask[self._groups]

    def record(self, routings: list[ExpertRouting], tokens: Tensor) -> None:
        """Add what a pass over `tokens` [sequences, n] wanted; False marks padding."""
        for layer, routing in enumerate(routings):
            self._latest[:, layer].index_add_(0, self._groups, _counts(routing.wanted, tokens, self._hot.shape[-1]))

    def refresh(self) -> None:
        """Choose the next pools, at the end of a draft phase."""
        self._hot = self._plan.memory * self._hot + self._latest
        self._latest = torch.zeros_like(self._hot)
        scores = self._hot if self._plan.kind == "hot" else torch.rand(self._hot.shape, generator=self._random)
        if self._plan.scope == "all":
            self._mask = _best(scores.flatten(1), self._plan.share).view_as(scores)
        else:
            self._mask = _best(scores, self._plan.share)

    def keep(self, rows: list[int]) -> None:
        """Go on with these sequences only."""
        self._groups = self._groups[rows]

    @property
    def groups(self) -> Tensor:
        """Which pool each sequence [sequences] uses."""
        return self._groups


def touched(routings: list[ExpertRouting], groups: Tensor, experts: int) -> float:
    """(layer, expert) pairs that a pass of a token for each sequence computes, on average over the pools in use."""
    total = 0
    for routing in routings:
        used = torch.zeros(int(groups.max()) + 1, experts)
        ones = (routing.weights > 0).to(used)
        used.index_put_((groups[:, None].expand_as(routing.chosen), routing.chosen), ones, accumulate=True)
        total += int((used > 0).sum())
    return total / len(groups.unique())


def _counts(wanted: Tensor, tokens: Tensor, experts: int) -> Tensor:
    """One-hot routing [tokens, top-k] summed by sequence: [sequences, experts]."""
    sequences, new = tokens.shape
    by_sequence = wanted.view(sequences, -1)
    ones = tokens.float().repeat_interleave(by_sequence.shape[1] // new, dim=1)
    return torch.zeros(sequences, experts).scatter_add_(1, by_sequence, ones)


def _best(scores: Tensor, share: float) -> Tensor:
    """Return True at the `share` highest of the last axis, at least one; of equals, at the first."""
    count = max(round(share * scores.shape[-1]), 1)
    order = scores.argsort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, order[..., :count], True)

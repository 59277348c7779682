"""The optimisers: Muon for the matrices inside the layers, AdamW for the embedding, the routers and the norms.

Muon (Jordan et al., 2024) takes the momentum's nearest orthogonal matrix as the update; scaled as in Moonlight (Liu
et al., 2025), its size is that of an AdamW update, and one learning rate is about right for both.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from itertools import repeat
from typing import Any

import torch
from torch import nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
SWEEPS = 5
MOMENTUM = 0.95
DECAY = 0.05
ROOT_MEAN_SQUARE = 0.2  # of an AdamW update, as Moonlight measured it


def orthogonal(stack: torch.Tensor) -> torch.Tensor:
    """Nearly the closest (semi-)orthogonal matrix of each in the stack: Newton-Schulz, the short side first.

    A sweep multiplies by a polynomial of the rows' products, so the sweeps are taken on these, which are small, and the
    polynomials' product is applied once.
    """
    tall = stack.shape[-2] > stack.shape[-1]
    x = stack.mT.contiguous() if tall else stack
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).view(-1, *x.shape[-2:])
    a, b, c = COEFFICIENTS
    gram, factor = x @ x.mT, torch.eye(x.shape[-2]).expand(len(x), -1, -1)
    for _ in range(SWEEPS):
        sweep = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        sweep.diagonal(dim1=-2, dim2=-1).add_(a)
        factor = sweep @ factor
        gram = sweep @ gram @ sweep
    x = factor @ x
    return (x.mT if tall else x).reshape(stack.shape)


class Muon(torch.optim.Optimizer):
    """Muon for matrices and stacks of matrices; each is updated by one worker of the pool."""

    def __init__(self, weights: list[nn.Parameter], rate: float, pool: Executor) -> None:
        super().__init__(weights, {"lr": rate})
        self.pool = pool

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """One update, with Nesterov momentum and decoupled weight decay."""
        for group in self.param_groups:
            list(self.pool.map(self._update, group["params"], repeat(group["lr"])))

    def _update(self, weights: nn.Parameter, rate: float) -> None:
        with torch.no_grad():
            momentum = self.state[weights].setdefault("momentum", torch.zeros_like(weights))
            momentum.lerp_(weights.grad, 1 - MOMENTUM)
            update = orthogonal(weights.grad.lerp(momentum, MOMENTUM))
            size = ROOT_MEAN_SQUARE * max(weights.shape[-2:]) ** 0.5
            weights.mul_(1 - rate * DECAY).add_(update, alpha=-rate * size)


def optimisers(model: nn.Module, rates: tuple[float, float], pool: Executor) -> list[torch.optim.Optimizer]:
    """Both, over all weights of the model; `rates` are of the matrices and of the others."""
    named = dict(model.named_parameters())
    matrices = [name for name in named if name.split(".")[-1] in ("q", "k", "v", "o", "gate", "up", "down")]
    others = [weights for name, weights in named.items() if name not in matrices]
    adam = torch.optim.AdamW(others, lr=rates[1], betas=(0.9, 0.95), weight_decay=0.0)
    return [Muon([named[name] for name in matrices], rates[0], pool), adam]

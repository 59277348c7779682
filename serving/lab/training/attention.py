"""Causal attention over many short segments, by plain matrix products.

Heads that share keys are rows of one product, so a segment takes few of them: a short one is faster on a CPU than in
the fused kernel, whose blocks it doesn't fill. A block of queries is taken with the keys up to its end, so that little
is worked out that causality hides. Long ones go to that kernel, for their scores would fill the memory.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

LONGEST = 1024  # tokens of a segment whose scores are kept
BLOCK = 128  # queries taken together
LATER = torch.full((BLOCK, BLOCK), -torch.inf).triu_(1)  # added to the scores of keys in a block of queries


class ShortAttention(torch.autograd.Function):
    """Softmax of scaled scores times values, for one segment, with its gradients worked out."""

    @staticmethod
    def forward(context: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """`q` [heads, tokens, size], `k` and `v` [kv heads, tokens, size] give [heads, tokens, size]."""
        scaled, seen, kept = q * q.shape[-1] ** -0.5, torch.empty_like(q), []
        for start, end in _blocks(q.shape[1]):
            scores = torch.bmm(_rows(scaled[:, start:end], k), k[:, :end].mT)
            scores.view(-1, end - start, end)[..., start:].add_(LATER[: end - start, : end - start])
            shares = scores.softmax(-1)
            seen[:, start:end] = torch.bmm(shares, v[:, :end]).view_as(q[:, start:end])
            kept.append(shares)
        context.save_for_backward(scaled, k, v, *kept)
        return seen

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the gradients of queries, keys and values."""
        scaled, k, v, *kept = context.saved_tensors
        to_q, to_k, to_v = torch.empty_like(scaled), torch.zeros_like(k), torch.zeros_like(v)
        for (start, end), shares in zip(_blocks(scaled.shape[1]), kept, strict=True):
            errors = _rows(grad[:, start:end], k)
            to_v[:, :end].baddbmm_(shares.mT, errors)
            change = torch.bmm(errors, v[:, :end].mT)
            change.mul_(shares).addcmul_(shares, change.sum(-1, keepdim=True), value=-1)
            to_q[:, start:end] = torch.bmm(change, k[:, :end]).view_as(to_q[:, start:end])
            to_k[:, :end].baddbmm_(change.mT, _rows(scaled[:, start:end], k))
        return to_q.mul_(scaled.shape[-1] ** -0.5), to_k, to_v


def _blocks(tokens: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BLOCK, tokens)) for start in range(0, tokens, BLOCK))


def _rows(heads: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Return [heads, tokens, size] as one row of tokens after another for each of the kv heads `k`."""
    return heads.reshape(len(k), -1, heads.shape[-1])


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return what each token of one segment takes from those before it: [heads, tokens, size]."""
    if q.shape[1] > LONGEST:
        return scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]
    return ShortAttention.apply(q, k, v)

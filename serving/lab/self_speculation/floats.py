"""BFloat16 numbers taken apart: mantissas cut, exponents shared or coded (Cassandra, IV-B)."""

from typing import NamedTuple

import torch
from torch import Tensor

MANTISSA = 7  # bits that a BFloat16 stores
SIGNIFICANT = MANTISSA + 1  # with the hidden one
EXPONENT = 8
MX_GROUP = 32
"""Numbers that share an exponent in the MX formats (OCP MX 1.0; Cassandra gives no other figure)."""


class ExponentBits(NamedTuple):
    """What exponents cost, in bits each."""

    entropy: float
    unary: float
    distinct: int


def bf16(x: Tensor) -> Tensor:
    """x rounded to BFloat16, in its own type."""
    return x.to(torch.bfloat16).to(x.dtype)


def cut_mantissa(x: Tensor, dropped: int) -> Tensor:
    """BFloat16 numbers without the `dropped` lowest of their 7 mantissa bits: towards zero, the exponent as it was."""
    mask = -1 << (32 - 1 - EXPONENT - MANTISSA + dropped)
    return (x.float().view(torch.int32) & mask).view(torch.float32).to(x.dtype)


def exponent_bits(x: Tensor) -> ExponentBits:
    """Entropy of the exponents, and their unary code: the i-th most frequent exponent takes i bits (Fig. 6)."""
    exponents = (x.float().flatten().view(torch.int32) >> (32 - 1 - EXPONENT)) & 255
    counts = torch.bincount(exponents, minlength=256).double().sort(descending=True).values
    share = counts[counts > 0] / counts.sum()
    lengths = torch.arange(1, len(share) + 1, dtype=torch.float64)
    return ExponentBits(float(-(share * share.log2()).sum()), float((share * lengths).sum()), len(share))


class Shared(NamedTuple):
    """Numbers in an MX format: whole steps, and the step of each, which its group of 32 shares."""

    values: Tensor  # [..., K], from -255 to 255
    steps: Tensor  # [..., K], powers of two

    def cut(self, dropped: int) -> Tensor:
        """Return the numbers [..., K] without the `dropped` lowest of their 8 magnitude bits, towards zero."""
        coarse = 2.0**dropped
        return (self.values / coarse).trunc() * coarse * self.steps


def shared_exponents(x: Tensor) -> Shared:
    """BFloat16 numbers with the exponent of the largest in each 32 of the last axis.

    A number keeps 8 magnitude bits (its 7 and the hidden one) shifted right by the distance of its exponent from the
    shared one, and rounded: the largest are exact, smaller ones lose bits.
    """
    groups = x.unflatten(-1, (-1, MX_GROUP))
    _, exponents = torch.frexp(groups.abs().amax(-1, keepdim=True))
    steps = torch.ldexp(torch.ones_like(groups), exponents - SIGNIFICANT)
    largest = 2**SIGNIFICANT - 1
    values = (groups / steps).round().clamp(-largest, largest)
    return Shared(values.flatten(-2), steps.flatten(-2))


def prune_tokens(x: Tensor, ratio: float) -> Tensor:
    """Keys or values [..., head dim] without the `ratio` smallest of each token and head (Cassandra, IV-B)."""
    count = int(ratio * x.shape[-1])
    if not count:
        return x
    smallest = x.abs().topk(count, dim=-1, largest=False).indices
    return x.scatter(-1, smallest, 0.0)

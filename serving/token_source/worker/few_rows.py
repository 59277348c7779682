"""Products of few rows in BF16, as they would be among more.

vLLM 0.32.0 has another kernel for four rows or fewer where weights are small, which sums in another order: one result
in 10,000 is rounded otherwise, and a request that is alone for a while would go on with other text than in a crowd.
"""

import torch
from torch.nn.functional import pad
from vllm import _custom_ops as ops

ENOUGH = 5
"""Rows from which on all have the same kernel, by trial: each row is then the same among however many (oneDNN's
products, experts and attention are so from one row on)."""


def take_enough_rows() -> None:
    """Have vLLM's products of BF16 rows with small weights made of `ENOUGH` rows at least, in this process."""
    kernel = ops.weight_packed_linear_cpu
    if kernel.__module__ == __name__:
        return

    def padded(rows: torch.Tensor, weight: torch.Tensor, size: int, bias: torch.Tensor | None) -> torch.Tensor:
        if rows.dim() != 2 or len(rows) >= ENOUGH:
            return kernel(rows, weight, size, bias)
        return kernel(pad(rows, (0, 0, 0, ENOUGH - len(rows))), weight, size, bias)[: len(rows)]

    ops.weight_packed_linear_cpu = padded

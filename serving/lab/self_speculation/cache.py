"""The KV cache of a batch of sequences of different lengths."""

import torch
from torch import Tensor


class LayerCache:
    """Keys and values [layers, sequences, positions, KV heads, head dim], and how many positions of each are valid.

    What lies beyond a sequence's length is never read: a query at position p sees the positions up to p, and those from
    the length on are written in the same pass. So a draft's entries need no clearing; verification overwrites them.
    """

    def __init__(self, layers: int, sequences: int, positions: int, width: tuple[int, int], dtype: torch.dtype) -> None:
        self.keys = torch.zeros(layers, sequences, positions, *width, dtype=dtype)
        self.values = torch.zeros_like(self.keys)
        self.lengths = torch.zeros(sequences, dtype=torch.long)

    def write(self, layer: int, at: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put new entries [sequences, n, ...] at the positions `at` [sequences, n]."""
        rows = torch.arange(at.shape[0])[:, None]
        self.keys[layer][rows, at] = keys
        self.values[layer][rows, at] = values

    def keep(self, rows: list[int]) -> None:
        """Drop all sequences but these."""
        self.keys, self.values, self.lengths = self.keys[:, rows], self.values[:, rows], self.lengths[rows]

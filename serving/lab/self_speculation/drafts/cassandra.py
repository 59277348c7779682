"""Cassandra's targets and drafts: weights pruned by Wanda, mantissas cut, exponents coded or shared (IV-B).

Pruned and cut are the matrices of the layers. The head stays in BF16, as Wanda leaves it. The draft reads "speculation
data": of the weights that are kept sign, exponent and upper mantissa bits, with a bitmap of which they are. Dropping 4
of a BFloat16's 7 mantissa bits leaves 3 (the truncation of B - w_t bits in Eq. 2).

Cassandra-1 codes exponents in unary, without loss: its target is the BF16 model. Cassandra-2 shares an exponent among
32 weights (`floats.shared_exponents`); as only speculation data is converted (V-A, the encoder), its target has the
kept weights in MX, and the pruned ones as they were. The paper gives neither the group nor the magnitude bits: 32 as in
the MX formats, and 8, so that the largest weights of a group lose nothing; that target is a slightly other model.

The draft may see the KV cache pruned by magnitude within each token and head, and its mantissas cut.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from serving.drafting.checkpoint import LINEARS
from serving.lab.self_speculation import floats
from serving.lab.self_speculation.attention import KvView
from serving.lab.self_speculation.draft import BF16_BITS, Bits, DraftModel
from serving.lab.self_speculation.wanda import Norms, kept
from serving.lab.self_speculation.weights import ModelWeights

SIGN = BITMAP = 1.0


class Cut(NamedTuple):
    """How much of the weights and of the cache a draft does without. The default is the paper's: 40 % and 4 bits."""

    pruned: float = 0.4
    dropped: int = 4  # mantissa bits
    kv_pruned: float = 0.0
    kv_dropped: int = 4


class Cassandra:
    """A checkpoint in BF16, its importance, and what is made of the two."""

    def __init__(self, source: ModelWeights, norms: Norms) -> None:
        self.target = source.with_linears(lambda _name, _layer, matrix: floats.bf16(matrix), head=True)
        self._norms = norms
        flat = [getattr(layer, name).flatten() for layer in self.target.layers for name in LINEARS]
        self.exponents = floats.exponent_bits(torch.cat(flat))

    def first(self, cut: Cut) -> DraftModel:
        """Cassandra-1's draft of `target`."""
        stored = SIGN + self.exponents.unary + floats.MANTISSA - cut.dropped
        return self._draft(lambda matrix, _: floats.cut_mantissa(matrix, cut.dropped), cut, stored)

    def second(self, cut: Cut) -> DraftModel:
        """Cassandra-2's draft of `shared_target`."""
        stored = SIGN + floats.EXPONENT / floats.MX_GROUP + floats.SIGNIFICANT - cut.dropped
        return self._draft(lambda matrix, keep: _shared(matrix, keep).cut(cut.dropped), cut, stored)

    def shared_target(self, pruned: float) -> ModelWeights:
        """Cassandra-2's target: the kept weights in MX, the others in BF16."""

        def change(name: str, layer: int, matrix: Tensor) -> Tensor:
            keep = self._kept(name, layer, matrix, pruned)
            return torch.where(keep, _shared(matrix, keep).cut(0), matrix)

        return self.target.with_linears(change, head=False)

    def _draft(self, convert: Callable[[Tensor, Tensor], Tensor], cut: Cut, stored: float) -> DraftModel:
        def change(name: str, layer: int, matrix: Tensor) -> Tensor:
            keep = self._kept(name, layer, matrix, cut.pruned)
            return convert(matrix, keep) * keep

        bitmap = BITMAP if cut.pruned else 0.0
        weights = self.target.with_linears(change, head=False)
        return DraftModel(weights, Bits(bitmap + (1 - cut.pruned) * stored, BF16_BITS), view=_view(cut))

    def _kept(self, name: str, layer: int, matrix: Tensor, ratio: float) -> Tensor:
        return kept(matrix, self._norms.of(name, layer), ratio)


def _shared(matrix: Tensor, keep: Tensor) -> floats.Shared:
    """Only kept weights choose the exponent of their group."""
    return floats.shared_exponents(matrix * keep)


def _view(cut: Cut) -> KvView | None:
    if not (cut.kv_pruned or cut.kv_dropped):
        return None
    return partial(_seen, cut)


def _seen(cut: Cut, x: Tensor) -> Tensor:
    return floats.cut_mantissa(floats.bf16(floats.prune_tokens(x, cut.kv_pruned)), cut.kv_dropped)

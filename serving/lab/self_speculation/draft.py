"""What a draft is: the target's architecture with other weights, fewer experts or layers, or less of its KV cache."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from serving.drafting.checkpoint import DENSE, EXPERTS
from serving.lab.self_speculation.attention import KvView
from serving.lab.self_speculation.pools import PoolPlan
from serving.lab.self_speculation.weights import ModelWeights

BITS_PER_BYTE = 8
BF16_BITS = 16.0


class Bits(NamedTuple):
    """Memory of a weight in bits, with its share of scales, exponents and bitmaps."""

    layers: float  # attention's matrices and the experts'
    head: float


@dataclass(frozen=True)
class DraftModel:
    """A draft of some target: both are given to `decode.speculate`."""

    weights: ModelWeights
    bits: Bits
    pool: PoolPlan | None = None
    exit_after: int | None = None
    view: KvView | None = None

    def throttled(self, pool: PoolPlan) -> "DraftModel":
        """Return the draft with a pool of experts."""
        return replace(self, pool=pool)

    @property
    def static_bytes(self) -> float:
        """What every pass reads: attention's matrices and the head. Norms, routers and embedding rows are left out."""
        layers = self.weights.layers[: self.exit_after]
        dense = sum(int(getattr(layer, name).numel()) for layer in layers for name in DENSE)
        return (dense * self.bits.layers + int(self.weights.head.numel()) * self.bits.head) / BITS_PER_BYTE

    @property
    def expert_bytes(self) -> float:
        """One expert of one layer."""
        numbers = sum(int(getattr(self.weights.layers[0], name)[0].numel()) for name in EXPERTS)
        return numbers * self.bits.layers / BITS_PER_BYTE

    @property
    def held_bytes(self) -> float:
        """What the draft occupies: its static weights and its pool of experts (ELMoE-3D, Fig. 5b, "draft cost")."""
        experts = self.weights.shape.experts * len(self.weights.layers[: self.exit_after])
        share = self.pool.share if self.pool else 1.0
        return self.static_bytes + share * experts * self.expert_bytes

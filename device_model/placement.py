"""Placement of weights, experts and drafts in memory tiers, and the room that is left to keys and values.

ELMoE-3D puts the static weights into HB, then the KV cache, and gives what remains to the expert cache (7.1, Fig. 12);
the KV cache takes that room from the experts as it grows (8). EXT holds every expert, since HB caches copies of them.
"""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

from device_model.arrays import Number, least
from device_model.size import ModelSize
from device_model.specs.spec import DeviceError, TierSpec


class Memory(Protocol):
    """How the tiers of a device are shared out."""

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of KV cache of a token, at most."""
        ...

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens of KV cache that fit beside the weights, over all tiers."""
        ...

    @property
    def kv_tokens_in_hb(self) -> int:
        """Those of them that the fast tier takes."""
        ...

    def kv_tokens_among(self, sharers: int) -> int:
        """`kv_capacity_tokens` of each of `sharers` devices with one slow tier. ValueError for less than 1."""
        ...

    def used(self, kv_tokens: int, drafting: bool = False) -> dict[tuple[str, str], float]:
        """Bytes by tier, "hb" or "ext", and kind with so many tokens in the KV cache, while it is `drafting` or not."""
        ...


class TierBytes(NamedTuple):
    """Bytes by tier and use at a given size of the KV cache; arrays have the shape of that size."""

    hb_static_bytes: float
    hb_kv_bytes: Number
    hb_expert_bytes: Number
    ext_static_bytes: float
    ext_kv_bytes: Number
    ext_expert_bytes: float


@dataclass(frozen=True, slots=True)
class Placement:
    """How the two tiers are shared out. `place` makes one."""

    hb_capacity_bytes: float
    ext_capacity_bytes: float
    hb_static_bytes: float
    ext_static_bytes: float
    expert_bytes: float
    kv_bytes_per_token: float
    draft_hb_bytes: float = 0.0
    draft_ext_bytes: float = 0.0
    drafting_experts_bytes: float = inf
    plain_experts_bytes: float = inf

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens of KV cache that fit beside the weights: in HB with no expert cached, and then in EXT.

        With sliding windows more would fit, but how many depends on how long each sequence is. These fit in any case.
        """
        return self.kv_tokens_among(1)

    @property
    def kv_tokens_in_hb(self) -> int:
        """Those of them that fit into HB, beside static weights and a draft's, at the cost of all cached experts."""
        return int(self._hb_free_bytes // self.kv_bytes_per_token)

    def kv_tokens_among(self, sharers: int) -> int:
        """`kv_capacity_tokens` of each of `sharers` devices that share one EXT: its weights are only read, so that it
        holds them once, and what they leave is shared evenly. ValueError for less than 1."""
        if sharers < 1:
            raise ValueError(f"sharers is {sharers}; an external tier has at least 1 device")
        weights = self.ext_static_bytes + self.expert_bytes + self.draft_ext_bytes
        free = self._hb_free_bytes + (self.ext_capacity_bytes - weights) / sharers
        return int(free // self.kv_bytes_per_token)

    @property
    def _hb_free_bytes(self) -> float:
        return self.hb_capacity_bytes - self.hb_static_bytes - self.draft_hb_bytes

    def at(self, kv_bytes: Number) -> TierBytes:
        """Who holds what with so large a KV cache. Beyond `kv_capacity_tokens` EXT is overfull."""
        hb_free = self._hb_free_bytes
        hb_kv = least(kv_bytes, hb_free)
        return TierBytes(
            hb_static_bytes=self.hb_static_bytes,
            hb_kv_bytes=hb_kv,
            hb_expert_bytes=least(hb_free - hb_kv, self.expert_bytes),
            ext_static_bytes=self.ext_static_bytes,
            ext_kv_bytes=kv_bytes - hb_kv,
            ext_expert_bytes=self.expert_bytes,
        )

    def used(self, kv_tokens: int, drafting: bool = False) -> dict[tuple[str, str], float]:
        """Bytes by tier ("hb", "ext") and kind with so many tokens in the KV cache, at most `kv_bytes_per_token` each.

        Experts in HB are copies of what EXT has: whole ones, or while a draft is made the slices that it is made of,
        all of which may be less than there is room for.
        """
        held = self.at(kv_tokens * self.kv_bytes_per_token)
        most_experts = self.drafting_experts_bytes if drafting else self.plain_experts_bytes
        return {
            ("hb", "static"): held.hb_static_bytes,
            ("hb", "kv"): float(held.hb_kv_bytes),
            ("hb", "draft"): self.draft_hb_bytes,
            ("hb", "experts"): min(float(held.hb_expert_bytes), most_experts),
            ("ext", "static"): held.ext_static_bytes,
            ("ext", "kv"): float(held.ext_kv_bytes),
            ("ext", "draft"): self.draft_ext_bytes,
            ("ext", "experts"): held.ext_expert_bytes,
        }


class DraftFootprint(NamedTuple):
    """What a draft keeps beside the target: weights, in HB if there is room, a KV cache of its own, and `ext_bytes` of
    weights in EXT, of which HB may cache some. All experts take `drafting_experts_bytes` of HB while it drafts, and
    `plain_experts_bytes` otherwise, where that is less than whole ones take."""

    weights_bytes: float = 0.0
    kv_bytes_per_token: float = 0.0
    ext_bytes: float = 0.0
    drafting_experts_bytes: float = inf
    plain_experts_bytes: float = inf


NO_FOOTPRINT = DraftFootprint()


def place(size: ModelSize, hb: TierSpec, ext: TierSpec, draft: DraftFootprint = NO_FOOTPRINT) -> Placement:
    """Place static weights as far as HB goes, then those of a draft; the rest and all experts in EXT. Raise DeviceError
    if EXT is too small."""
    hb_static = min(size.static_bytes, hb.capacity_bytes)
    hb_draft = min(draft.weights_bytes, hb.capacity_bytes - hb_static)
    placement = Placement(
        hb_capacity_bytes=hb.capacity_bytes,
        ext_capacity_bytes=ext.capacity_bytes,
        hb_static_bytes=hb_static,
        ext_static_bytes=size.static_bytes - hb_static,
        expert_bytes=size.experts_bytes,
        kv_bytes_per_token=size.kv_bytes_per_token + draft.kv_bytes_per_token,
        draft_hb_bytes=hb_draft,
        draft_ext_bytes=draft.weights_bytes - hb_draft + draft.ext_bytes,
        drafting_experts_bytes=draft.drafting_experts_bytes,
        plain_experts_bytes=draft.plain_experts_bytes,
    )
    need = placement.ext_static_bytes + placement.expert_bytes + placement.draft_ext_bytes
    if need > ext.capacity_bytes:
        raise DeviceError(
            f"The model does not fit: its weights take {need / 1e9:.1f} GB of the external memory, "
            f"whose capacity allows at most {ext.capacity_bytes / 1e9:.1f} GB."
        )
    return placement

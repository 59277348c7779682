"""The specs that the TOML files load into: figures as their sources print them, and the same figures in SI units.

This is the only place where units are converted: properties give bytes, seconds, joules and watts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

GIB = 2**30
GIGA, TERA, PICO, NANO, MICRO = 1e9, 1e12, 1e-12, 1e-9, 1e-6
BITS_PER_BYTE = 8


class DeviceError(ValueError):
    """A device that can't be: its parts do not go together. The message is a sentence that says what, and what is
    allowed."""


class SpecError(DeviceError):
    """A file of specs or measurements that can't be used. The message says where, what and what is allowed."""


class UnknownName(DeviceError):
    """A name that nothing has of its `kind` (hardware, model, system, ...). The message lists those that exist."""

    def __init__(self, sentence: str, kind: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind


class Contradiction(ValueError):
    """Raised by a spec's `__post_init__`: the figure `key` cannot stand beside the others. `allowed` completes the
    sentence "allowed is ..."."""

    def __init__(self, key: str, allowed: str) -> None:
        super().__init__(f"{key}: allowed is {allowed}")
        self.key = key
        self.allowed = allowed


class ValueRule(NamedTuple):
    """What a field takes: in words, completing "allowed is ...", and as a test of the value."""

    words: str
    accepts: Callable[[Any], bool]


Count = Annotated[int, ValueRule("a whole number of at least 1", lambda v: v >= 1)]
CountOrNone = Annotated[int, ValueRule("a whole number of at least 0", lambda v: v >= 0)]
# No part has more of anything, and with larger figures sums lose all that is small beside them.
MOST = 1e12
PositiveOrNone = Annotated[float, ValueRule(f"a number from 0 to {MOST:g}", lambda v: 0 <= v <= MOST)]
Positive = Annotated[float, ValueRule(f"a number above 0 and at most {MOST:g}", lambda v: 0 < v <= MOST)]
Loss = Annotated[float, ValueRule("a percentage from 0 to below 100", lambda v: 0 <= v < 100)]
Exponent = Annotated[float, ValueRule("a number above 0 and at most 1", lambda v: 0 < v <= 1)]
PositiveShare = Annotated[float, ValueRule("a number above 0 and at most 1", lambda v: 0 < v <= 1)]
Share = Annotated[float, ValueRule("a number from 0 to 1", lambda v: 0 <= v <= 1)]
Series = Annotated[
    tuple[float, ...],
    ValueRule("a list of two or more numbers above 0, none below the one before", lambda v: _rises(v)),
]
Bits = Annotated[float, ValueRule("a number of bits from 1 to 64", lambda v: 1 <= v <= 64)]
BitsOrNone = Annotated[float, ValueRule("a number of bits from 1 to 64, or 0", lambda v: v == 0 or 1 <= v <= 64)]
Flag = Annotated[bool, ValueRule("true or false", lambda v: True)]
Name = Annotated[str, ValueRule("the name of a file in specs/calibration", lambda v: bool(v))]
System = Annotated[str, ValueRule("the name of a file in systems", lambda v: bool(v))]
GQA, MLA = "gqa", "mla"
AttentionKind = Annotated[str, ValueRule(f"{GQA} or {MLA}", lambda v: v in (GQA, MLA))]


def _rises(values: Sequence[float]) -> bool:
    return len(values) > 1 and values[0] > 0 and all(low <= high for low, high in pairwise(values))


class TierSpec(NamedTuple):
    """A memory tier in SI units; `bytes_per_s` is what remains of the peak after row conflicts and refresh."""

    capacity_bytes: float
    bytes_per_s: float
    j_per_byte: float

    @staticmethod
    def of(capacity_gib: float, gb_per_s: float, loss_percent: float, read_pj_per_bit: float) -> "TierSpec":
        """Return a tier from figures as data sheets print them."""
        return TierSpec(
            capacity_bytes=capacity_gib * GIB,
            bytes_per_s=gb_per_s * GIGA * (1 - loss_percent / 100),
            j_per_byte=read_pj_per_bit * PICO * BITS_PER_BYTE,
        )


@dataclass(frozen=True, slots=True)
class NearMemory:
    """Compute in or near the LPDDR, beside the xPU: ELMoE-3D, 7, Accelerator Baselines."""

    capacity_gib: Positive  # of the memory that it reaches
    bandwidth_multiple: Positive  # of what all channels deliver outside
    tops: Positive
    read_pj_per_bit: Positive
    mac_pj: Positive
    ext_share: PositiveShare  # of the external bandwidth, left to the xPU

    @property
    def capacity_bytes(self) -> float:
        return self.capacity_gib * GIB

    @property
    def macs_per_s(self) -> float:
        return self.tops * TERA / 2

    @property
    def j_per_mac(self) -> float:
        return self.mac_pj * PICO

    @property
    def read_j_per_byte(self) -> float:
        return self.read_pj_per_bit * PICO * BITS_PER_BYTE


_GQA_KEYS = ("kv_heads", "head_dim")
_MLA_KEYS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_WINDOW_KEYS = ("sliding_window", "sliding_window_layers")
_EXPERT_KEYS = ("top_k", "expert_intermediate_size", "expert_weight_bits")
_SHARED_KEYS = ("shared_experts", "shared_expert_intermediate_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A transformer, with experts or dense, and the bits in which it is served. What has a default may be left out.

    Attention is `gqa`, with `kv_heads` of `head_dim`, or `mla`, with its ranks and the widths of its heads;
    `q_lora_rank` 0 projects queries at full rank. `dense_layers` layers have one MLP instead of experts: in a model
    without experts all of them. `sliding_window_layers` layers attend to no more than the last `sliding_window` tokens.
    Which layers these are makes no difference to any cost, so only their number is kept.
    """

    calibration: Name
    layers: Count
    hidden_size: Count
    attention: AttentionKind = GQA
    q_heads: Count
    kv_heads: CountOrNone = 0
    head_dim: CountOrNone = 0
    q_lora_rank: CountOrNone = 0
    kv_lora_rank: CountOrNone = 0
    qk_nope_head_dim: CountOrNone = 0
    qk_rope_head_dim: CountOrNone = 0
    v_head_dim: CountOrNone = 0
    sliding_window: CountOrNone = 0
    sliding_window_layers: CountOrNone = 0
    dense_layers: CountOrNone = 0
    dense_intermediate_size: CountOrNone = 0
    experts: CountOrNone = 0
    top_k: CountOrNone = 0
    expert_intermediate_size: CountOrNone = 0
    shared_experts: CountOrNone = 0
    shared_expert_intermediate_size: CountOrNone = 0  # of each; 0 is that of a routed expert
    vocab_size: Count
    tied_embeddings: Flag
    max_context_tokens: Count
    static_weight_bits: Bits
    expert_weight_bits: BitsOrNone = 0.0
    kv_bits: Bits
    # Of a token's choices, those that fall on the top_k x layers experts that its topic uses most; 0 if nobody knows.
    hot_hit_rate: Share = 0.0

    def __post_init__(self) -> None:
        self._check_attention()
        self._check_window()
        self._check_experts()
        self._check_dense_layers()

    def _check_attention(self) -> None:
        if self.attention == GQA:
            self._need(_GQA_KEYS, "with gqa attention")
            self._rule_out((*_MLA_KEYS, "q_lora_rank"), "with gqa attention")
            if self.q_heads % self.kv_heads:
                raise Contradiction("kv_heads", f"a divisor of q_heads, {self.q_heads}")
        else:
            self._need(_MLA_KEYS, "with mla attention")
            self._rule_out((*_GQA_KEYS, *_WINDOW_KEYS), "with mla attention")

    def _check_window(self) -> None:
        if self.sliding_window or self.sliding_window_layers:
            self._need(_WINDOW_KEYS, "in a model with the other of sliding_window and sliding_window_layers")
        if self.sliding_window_layers > self.layers:
            raise Contradiction("sliding_window_layers", f"at most layers, {self.layers}")

    def _check_experts(self) -> None:
        if not self.experts:
            return self._rule_out((*_EXPERT_KEYS, *_SHARED_KEYS, "hot_hit_rate"), "in a model without experts")
        self._need(_EXPERT_KEYS, "in a model with experts")
        if self.top_k > self.experts:
            raise Contradiction("top_k", f"at most experts, {self.experts}")
        evenly = self.top_k / self.experts
        if 0 < self.hot_hit_rate < evenly:
            # It was published for another top_k: a token would read fewer experts than it chooses.
            raise Contradiction(
                "hot_hit_rate", f"at least top_k / experts, {evenly:.4g}, for hot ones are used most; or no such key"
            )
        if not self.shared_experts:
            self._rule_out(("shared_expert_intermediate_size",), "without shared_experts")

    def _check_dense_layers(self) -> None:
        if not self.experts and self.dense_layers != self.layers:
            raise Contradiction("dense_layers", f"all layers, {self.layers}, in a model without experts")
        if self.experts and self.dense_layers >= self.layers:
            raise Contradiction("dense_layers", f"less than layers, {self.layers}, in a model with experts")
        if self.dense_layers:
            self._need(("dense_intermediate_size",), "with dense_layers")
        else:
            self._rule_out(("dense_intermediate_size",), "without dense_layers")

    def _need(self, keys: tuple[str, ...], where: str) -> None:
        for key in keys:
            if not getattr(self, key):
                raise Contradiction(key, f"a number above 0 {where}")

    def _rule_out(self, keys: tuple[str, ...], where: str) -> None:
        for key in keys:
            if getattr(self, key):
                raise Contradiction(key, f"0, or no such key, {where}")

    @property
    def expert_layers(self) -> int:
        """Layers with experts: those that are not dense."""
        return self.layers - self.dense_layers

    @property
    def static_bytes_per_weight(self) -> float:
        return self.static_weight_bits / BITS_PER_BYTE

    @property
    def expert_bytes_per_weight(self) -> float:
        return self.expert_weight_bits / BITS_PER_BYTE

    @property
    def kv_bytes_per_value(self) -> float:
        return self.kv_bits / BITS_PER_BYTE


@dataclass(frozen=True, slots=True)
class EnergyEstimate:
    """What ELMoE-3D shows in Fig. 15 but gives no figure for: compute, communication and static power. From other
    sources, or estimated; nothing here is fitted."""

    mac_pj: Positive
    link_pj_per_bit: Positive
    leakage_w_per_pe: Positive
    dram_background_w_per_gib: Positive

    @property
    def j_per_mac(self) -> float:
        return self.mac_pj * PICO

    @property
    def link_j_per_byte(self) -> float:
        return self.link_pj_per_bit * PICO * BITS_PER_BYTE

    def static_w(self, pe_count: int, dram_gib: float) -> float:
        """Watts that a die of so many PEs and its DRAM draw whatever they do: leakage, standby and refresh."""
        return self.leakage_w_per_pe * pe_count + self.dram_background_w_per_gib * dram_gib

"""The specs that the TOML files load into: figures as their sources print them, and the same figures in SI units.

This is the only place where units are converted: properties give bytes, seconds, joules and watts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

GIB = 2**30
GIGA, TERA, PICO = 1e9, 1e12, 1e-12
BITS_PER_BYTE = 8


class SpecError(ValueError):
    """A spec that can't be used. The message is a sentence that says where, what and what is allowed."""


class Contradiction(ValueError):
    """Raised by a spec's `__post_init__`: the figure `key` cannot stand beside the others. `allowed` completes the
    sentence "allowed is ..."."""

    def __init__(self, key: str, allowed: str) -> None:
        super().__init__(f"{key}: allowed is {allowed}")
        self.key = key
        self.allowed = allowed


class Allowed(NamedTuple):
    """What a field takes: in words, completing "allowed is ...", and as a test of the value."""

    words: str
    accepts: Callable[[Any], bool]


Count = Annotated[int, Allowed("a whole number of at least 1", lambda v: v >= 1)]
CountOrNone = Annotated[int, Allowed("a whole number of at least 0", lambda v: v >= 0)]
Positive = Annotated[float, Allowed("a number above 0", lambda v: v > 0)]
Loss = Annotated[float, Allowed("a percentage from 0 to below 100", lambda v: 0 <= v < 100)]
Exponent = Annotated[float, Allowed("a number above 0 and at most 1", lambda v: 0 < v <= 1)]
Flag = Annotated[bool, Allowed("true or false", lambda v: True)]
Name = Annotated[str, Allowed("the name of a file in specs/calibration", lambda v: bool(v))]


class Tier(NamedTuple):
    """A memory tier in SI units; `bytes_per_s` is what remains of the peak after row conflicts and refresh."""

    capacity_bytes: float
    bytes_per_s: float
    j_per_byte: float


@dataclass(frozen=True, slots=True)
class Hardware:
    """An xPU with hybrid-bonded memory (HB) over its logic die and LPDDR beside it (EXT): ELMoE-3D, Table 1."""

    energy_estimate: Name
    pe_count: Count
    int8_tops: Positive
    hb_capacity_gib: Positive
    hb_gb_per_s: Positive
    hb_loss_percent: Loss
    hb_read_pj_per_bit: Positive
    ext_capacity_gib: Positive
    ext_gb_per_s: Positive
    ext_loss_percent: Loss
    ext_read_pj_per_bit: Positive

    @property
    def macs_per_s(self) -> float:
        """INT8 multiply-accumulates per second, at two operations each."""
        return self.int8_tops * TERA / 2

    @property
    def hb(self) -> Tier:
        return _tier(self.hb_capacity_gib, self.hb_gb_per_s, self.hb_loss_percent, self.hb_read_pj_per_bit)

    @property
    def ext(self) -> Tier:
        return _tier(self.ext_capacity_gib, self.ext_gb_per_s, self.ext_loss_percent, self.ext_read_pj_per_bit)

    def without_hb(self) -> "Hardware":
        """The same die with its LPDDR alone."""
        return replace(self, hb_capacity_gib=0.0)


@dataclass(frozen=True, slots=True)
class Model:
    """A mixture-of-experts transformer with grouped-query attention, and the bits in which it is served."""

    calibration: Name
    layers: Count
    hidden_size: Count
    q_heads: Count
    kv_heads: Count
    head_dim: Count
    experts: Count
    top_k: Count
    shared_experts: CountOrNone
    expert_intermediate_size: Count
    vocab_size: Count
    tied_embeddings: Flag
    max_context_tokens: Count
    static_weight_bits: Positive
    expert_weight_bits: Positive
    kv_bits: Positive

    def __post_init__(self) -> None:
        if self.top_k > self.experts:
            raise Contradiction("top_k", f"at most experts, {self.experts}")
        if self.q_heads % self.kv_heads:
            raise Contradiction("kv_heads", f"a divisor of q_heads, {self.q_heads}")

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
class Locality:
    """How often a model's experts are found in the HB cache; `experts.hit_rate` says what the exponents mean."""

    hit_exponent: Exponent
    saturation_exponent: Positive


@dataclass(frozen=True, slots=True)
class EnergyEstimate:
    """What ELMoE-3D shows in Fig. 15 but gives no figure for: compute, communication and static power."""

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

    def static_w(self, hardware: Hardware) -> float:
        """Watts that `hardware` draws whatever it does: leakage of the die, standby and refresh of both memories."""
        dram_gib = hardware.hb_capacity_gib + hardware.ext_capacity_gib
        return self.leakage_w_per_pe * hardware.pe_count + self.dram_background_w_per_gib * dram_gib


def _tier(capacity_gib: float, gb_per_s: float, loss_percent: float, read_pj_per_bit: float) -> Tier:
    return Tier(
        capacity_bytes=capacity_gib * GIB,
        bytes_per_s=gb_per_s * GIGA * (1 - loss_percent / 100),
        j_per_byte=read_pj_per_bit * PICO * BITS_PER_BYTE,
    )

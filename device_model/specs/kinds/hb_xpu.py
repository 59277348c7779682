"""`hb-xpu`: a logic die under hybrid-bonded memory, with LPDDR beside it."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from device_model.specs.hardware import TierNames
from device_model.specs.spec import (
    GIGA,
    TERA,
    Contradiction,
    Count,
    DeviceError,
    Loss,
    Name,
    Positive,
    PositiveOrNone,
    System,
    TierSpec,
    ValueRule,
)

KIND = "hb-xpu"
Kind = Annotated[str, ValueRule(KIND, lambda v: v == KIND)]
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Hardware:
    """An xPU with hybrid-bonded memory (HB) over its logic die and LPDDR beside it (EXT): ELMoE-3D, Table 1."""

    tiers: ClassVar[TierNames] = TierNames("hb", "lpddr")

    energy_estimate: Name
    speculation: Name
    pe_count: Count
    int8_tops: Positive
    int4_tops: Positive
    hb_capacity_gib: Positive
    hb_gb_per_s: Positive
    hb_loss_percent: Loss
    hb_read_pj_per_bit: Positive
    ext_capacity_gib: Positive
    ext_gb_per_s: Positive
    ext_loss_percent: Loss
    ext_read_pj_per_bit: Positive
    aggregation_link_gb_per_s: Positive
    streamline_gb_per_s: Positive
    activation_links: PositiveOrNone = 0.0  # of a PE, that bring it activations; 0: these take no time
    kind: Kind = KIND
    system: System = "elmoe3d"

    def __post_init__(self) -> None:
        if self.int4_tops < self.int8_tops:
            # One slice of the weights is part of two.
            raise Contradiction("int4_tops", f"at least int8_tops, {self.int8_tops}")

    @property
    def aggregation_link_bytes_per_s(self) -> float:
        """Of one PE, for PSUMs and activations: of one link, unless it has more."""
        return self.aggregation_link_gb_per_s * GIGA * (self.activation_links or 1.0)

    @property
    def streamline_bytes_per_s(self) -> float:
        """Of the ring that brings what EXT delivers to all PEs."""
        return self.streamline_gb_per_s * GIGA

    @property
    def macs_per_s(self) -> float:
        """INT8 multiply-accumulates per second, at two operations each."""
        return self.int8_tops * TERA / 2

    @property
    def hb(self) -> TierSpec:
        return TierSpec.of(self.hb_capacity_gib, self.hb_gb_per_s, self.hb_loss_percent, self.hb_read_pj_per_bit)

    @property
    def ext(self) -> TierSpec:
        return TierSpec.of(self.ext_capacity_gib, self.ext_gb_per_s, self.ext_loss_percent, self.ext_read_pj_per_bit)

    @property
    def fast(self) -> TierSpec:
        return self.hb

    @property
    def slow(self) -> TierSpec:
        return self.ext

    def without_hb(self) -> "Hardware":
        """Return the same die with its LPDDR alone."""
        return replace(self, hb_capacity_gib=0.0)

    def degraded(self, ext_share: float, hb_share: float, clock_share: float) -> "Hardware":
        """Return the same hardware with shares of LPDDR's bandwidth, of its HB banks and of its clock (`condition`). A
        bank of which a part is lost is lost. DeviceError if no bank is left.
        """
        banks = int(hb_share * self.pe_count + ROUNDING)
        if not banks:
            least = 1 / self.pe_count
            raise DeviceError(f"hb_share is {hb_share}; allowed is at least {least:.4g}, one bank with its PE.")
        paired = banks / self.pe_count
        compute = paired * clock_share
        return replace(
            self,
            pe_count=banks,
            int8_tops=self.int8_tops * compute,
            int4_tops=self.int4_tops * compute,
            hb_capacity_gib=self.hb_capacity_gib * paired,
            hb_gb_per_s=self.hb_gb_per_s * paired,
            ext_gb_per_s=self.ext_gb_per_s * ext_share,
            aggregation_link_gb_per_s=self.aggregation_link_gb_per_s * clock_share,
            streamline_gb_per_s=self.streamline_gb_per_s * clock_share,
        )

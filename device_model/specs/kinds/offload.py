"""`offload`: a GPU with too little memory for all experts, and the host's memory, which has them, behind PCIe."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from device_model.specs.hardware import TierNames
from device_model.specs.spec import (
    BITS_PER_BYTE,
    PICO,
    TERA,
    Contradiction,
    DeviceError,
    Loss,
    Name,
    Positive,
    PositiveOrNone,
    PositiveShare,
    Share,
    System,
    TierSpec,
    ValueRule,
)

KIND = "offload"
Kind = Annotated[str, ValueRule(KIND, lambda v: v == KIND)]


@dataclass(frozen=True, slots=True)
class Hardware:
    """One GPU and its host."""

    tiers: ClassVar[TierNames] = TierNames("hbm", "host")

    calibration: Name
    hbm_capacity_gib: Positive
    reserved_gib: PositiveOrNone  # of it, for what is neither weights nor KV cache
    hbm_gb_per_s: Positive
    fp16_tflops: Positive  # dense
    tdp_w: Positive
    busy_power_share: Share  # of the TDP, while memory or compute is at the rate that it reaches, or both are
    idle_power_share: Share
    host_capacity_gib: Positive
    host_gb_per_s: Positive
    host_loss_percent: Loss
    host_read_pj_per_bit: Positive
    link_pj_per_bit: Positive
    clock_share: PositiveShare = 1.0  # of the clock at which it has its TFLOPS
    kind: Kind = KIND
    system: System = "offload"

    def __post_init__(self) -> None:
        if self.reserved_gib >= self.hbm_capacity_gib:
            raise Contradiction("reserved_gib", f"less than hbm_capacity_gib, {self.hbm_capacity_gib}")
        if self.idle_power_share > self.busy_power_share:
            raise Contradiction("idle_power_share", f"at most busy_power_share, {self.busy_power_share}")

    @property
    def macs_per_s(self) -> float:
        """FP16 multiply-accumulates per second, at two operations each."""
        return self.fp16_tflops * self.clock_share * TERA / 2

    @property
    def idle_w(self) -> float:
        return self.idle_power_share * self.tdp_w

    @property
    def busy_beyond_idle_w(self) -> float:
        return (self.busy_power_share - self.idle_power_share) * self.tdp_w

    @property
    def link_j_per_byte(self) -> float:
        """Of PCIe, at both ends."""
        return self.link_pj_per_bit * PICO * BITS_PER_BYTE

    @property
    def fast(self) -> TierSpec:
        """What weights and KV cache may have of the GPU's memory. What its bytes cost depends on the rate that they
        reach."""
        return TierSpec.of(self.hbm_capacity_gib - self.reserved_gib, self.hbm_gb_per_s, 0.0, 0.0)

    @property
    def slow(self) -> TierSpec:
        """The host's memory, at the rate of PCIe, through which the GPU reads it."""
        return TierSpec.of(
            self.host_capacity_gib, self.host_gb_per_s, self.host_loss_percent, self.host_read_pj_per_bit
        )

    def degraded(self, ext_share: float, hb_share: float, clock_share: float) -> "Hardware":
        """Return a GPU with shares of its link to the host and of its clock, at which a MAC costs what it did. Raise
        DeviceError for banks, which it doesn't lose.
        """
        if hb_share < 1:
            raise DeviceError(f"hb_share is {hb_share}; a GPU loses no banks, and 1 is all it allows.")
        return replace(self, host_gb_per_s=self.host_gb_per_s * ext_share, clock_share=self.clock_share * clock_share)

"""`wafer`: a chip as large as a wafer, whose SRAM holds the whole model. A link leads to the host."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from device_model.specs.hardware import TierNames
from device_model.specs.spec import TERA, DeviceError, Positive, Share, System, TierSpec, ValueRule

KIND = "wafer"
Kind = Annotated[str, ValueRule(KIND, lambda v: v == KIND)]


@dataclass(frozen=True, slots=True)
class Hardware:
    """One wafer."""

    tiers: ClassVar[TierNames] = TierNames("sram", "host")

    sram_capacity_gib: Positive
    sram_gb_per_s: Positive
    fp16_tflops: Positive  # dense
    reached_share: Share  # of bandwidth and compute
    power_w: Positive
    idle_power_share: Share
    host_gb_per_s: Positive
    kind: Kind = KIND
    system: System = "wafer"

    @property
    def macs_per_s(self) -> float:
        """FP16 multiply-accumulates per second, at two operations each."""
        return self.fp16_tflops * TERA / 2

    @property
    def fast(self) -> TierSpec:
        """The SRAM. What its bytes cost is part of `power_w`."""
        return TierSpec.of(self.sram_capacity_gib, self.sram_gb_per_s, 0.0, 0.0)

    @property
    def slow(self) -> TierSpec:
        """The link to the host, which holds nothing."""
        return TierSpec.of(0.0, self.host_gb_per_s, 0.0, 0.0)

    def degraded(self, ext_share: float, hb_share: float, clock_share: float) -> "Hardware":
        """Return a wafer with shares of its link and clock. Raise DeviceError for banks, which it doesn't lose."""
        if hb_share < 1:
            raise DeviceError(f"hb_share is {hb_share}; a wafer loses no banks, and 1 is all it allows.")
        return replace(self, host_gb_per_s=self.host_gb_per_s * ext_share, fp16_tflops=self.fp16_tflops * clock_share)

"""`npu`: a systolic array behind a scratchpad, with one tier of DRAM."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from device_model.specs.hardware import TierNames
from device_model.specs.spec import (
    GIGA,
    MICRO,
    TERA,
    DeviceError,
    Loss,
    Positive,
    PositiveShare,
    Share,
    System,
    TierSpec,
    ValueRule,
)

KIND = "npu"
Kind = Annotated[str, ValueRule(KIND, lambda v: v == KIND)]
MEGA = 1 / MICRO


@dataclass(frozen=True, slots=True)
class Hardware:
    """An NPU: DMA brings weights and activations from DRAM into a scratchpad, from which the array computes."""

    tiers: ClassVar[TierNames] = TierNames("dram", "host")

    fp16_tflops: Positive
    compute_share: PositiveShare  # of the array's peak that GEMMs reach
    clock_ghz: Positive
    scratchpad_mb: Positive
    scratchpad_bytes_per_cycle: Positive
    dram_capacity_gib: Positive
    dram_gb_per_s: Positive
    dram_loss_percent: Loss
    dram_read_pj_per_bit: Positive
    dram_background_w_per_gib: Positive
    array_w: Positive  # all MACs at work
    vector_w: Positive
    scratchpad_w: Positive  # at its whole bandwidth
    dma_w: Positive
    idle_power_share: Share  # of the die's, drawn whatever it does
    host_gb_per_s: Positive
    clock_share: PositiveShare = 1.0  # of the clock at which the figures above hold
    kind: Kind = KIND
    system: System = "npu"

    @property
    def macs_per_s(self) -> float:
        """Multiply-accumulates per second of the array at its peak, at two operations each."""
        return self.fp16_tflops * self.clock_share * TERA / 2

    @property
    def j_per_mac(self) -> float:
        """Of the array at work, beyond what it draws idle."""
        return self._at_work_w(self.array_w) / self.macs_per_s

    @property
    def scratchpad_bytes(self) -> float:
        return self.scratchpad_mb * MEGA

    @property
    def scratchpad_bytes_per_s(self) -> float:
        """What goes into the scratchpad and comes out of it, together."""
        return self.scratchpad_bytes_per_cycle * self.clock_ghz * self.clock_share * GIGA

    @property
    def scratchpad_j_per_byte(self) -> float:
        """Of scratchpad and DMA, beyond what they draw idle."""
        return self._at_work_w(self.scratchpad_w + self.dma_w) / self.scratchpad_bytes_per_s

    @property
    def vector_at_work_w(self) -> float:
        """Watts of the vector unit, beyond what it draws idle."""
        return self._at_work_w(self.vector_w)

    @property
    def idle_w(self) -> float:
        """Watts that die and DRAM draw whatever they do."""
        die_w = self.array_w + self.vector_w + self.scratchpad_w + self.dma_w
        return die_w * self.idle_power_share + self.dram_capacity_gib * self.dram_background_w_per_gib

    @property
    def fast(self) -> TierSpec:
        return TierSpec.of(
            self.dram_capacity_gib, self.dram_gb_per_s, self.dram_loss_percent, self.dram_read_pj_per_bit
        )

    @property
    def slow(self) -> TierSpec:
        """The link to the host, which holds nothing."""
        return TierSpec.of(0.0, self.host_gb_per_s, 0.0, 0.0)

    def degraded(self, ext_share: float, hb_share: float, clock_share: float) -> "Hardware":
        """Return an NPU with a share of the clock of array and scratchpad. Raise DeviceError for banks, which it
        doesn't lose, and for the link to the host, over which no step reads anything.
        """
        if hb_share < 1:
            raise DeviceError(f"hb_share is {hb_share}; an NPU loses no banks, and 1 is all it allows.")
        if ext_share < 1:
            raise DeviceError(f"ext_share is {ext_share}; an NPU reads nothing from its host, and 1 is all it allows.")
        return replace(self, clock_share=self.clock_share * clock_share)

    def _at_work_w(self, watts: float) -> float:
        """Return what so many watts at the full clock leave beyond those drawn idle, which leak at any clock."""
        return watts * (1 - self.idle_power_share) * self.clock_share

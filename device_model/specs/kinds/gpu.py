"""`gpu`: one GPU, or several that share each layer."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from device_model.specs.hardware import TierNames
from device_model.specs.spec import (
    GIGA,
    MICRO,
    TERA,
    Contradiction,
    Count,
    DeviceError,
    Name,
    Positive,
    PositiveOrNone,
    PositiveShare,
    Share,
    System,
    TierSpec,
    ValueRule,
)

KIND = "gpu"
Kind = Annotated[str, ValueRule(KIND, lambda v: v == KIND)]


@dataclass(frozen=True, slots=True)
class Hardware:
    """GPUs of one make, each with its own memory; figures are those of one.

    What a serving engine makes of them is in `calibration`, unless the shares and microseconds were measured, on this
    hardware (`foreserve calibrate --measured`): then these count.
    """

    tiers: ClassVar[TierNames] = TierNames("hbm", "host")

    calibration: Name
    gpus: Count
    hbm_capacity_gib: Positive
    hbm_gb_per_s: Positive
    fp16_tflops: Positive  # dense
    tdp_w: Positive
    decode_power_share: Share  # of the TDP, while it decodes
    idle_power_share: Share
    host_gb_per_s: Positive
    link_gb_per_s: PositiveOrNone = 0.0  # to the other GPUs, in one direction
    bandwidth_share: Share = 0.0  # of the memory's peak, while weights and KV are read
    compute_share: Share = 0.0  # of the peak that GEMMs reach
    layer_us: PositiveOrNone = 0.0  # what a layer takes beyond its bytes and MACs
    eager_layer_us: PositiveOrNone = 0.0  # least time of a layer in passes that no CUDA graph holds
    pass_us: PositiveOrNone = 0.0  # what a pass takes beyond its layers, bytes and MACs
    eager_pass_us: PositiveOrNone = 0.0  # what is added to the least time of all layers, where no CUDA graph holds them
    clock_share: PositiveShare = 1.0  # of the clock at which it has its TFLOPS
    kind: Kind = KIND
    system: System = "gpu"

    def __post_init__(self) -> None:
        if self.gpus > 1 and not self.link_gb_per_s:
            raise Contradiction("link_gb_per_s", "a number above 0 with more than one GPU")
        if bool(self.bandwidth_share) != bool(self.compute_share):
            missing = "bandwidth_share" if self.compute_share else "compute_share"
            raise Contradiction(missing, "a number above 0 where the other share is measured")
        if self.idle_power_share > self.decode_power_share:
            raise Contradiction("idle_power_share", f"at most decode_power_share, {self.decode_power_share}")
        for key in ("layer_us", "eager_layer_us", "pass_us", "eager_pass_us"):
            if getattr(self, key) and not self.is_measured:
                raise Contradiction(key, "0, or no such key, where bandwidth_share and compute_share are not measured")

    @property
    def is_measured(self) -> bool:
        """Tell whether what an engine makes of this hardware was measured on it."""
        return self.bandwidth_share > 0

    def beside_s(self, layers: int) -> float:
        """Return the seconds that a pass through so many layers takes beyond its bytes and MACs."""
        return (self.pass_us + layers * self.layer_us) * MICRO

    def eager_s(self, layers: int) -> float:
        """Return the seconds that a pass through so many layers takes at least where no CUDA graph holds it."""
        return (self.eager_pass_us + layers * self.eager_layer_us) * MICRO

    @property
    def macs_per_s(self) -> float:
        """FP16 multiply-accumulates per second of all GPUs, at two operations each."""
        return self.gpus * self.fp16_tflops * self.clock_share * TERA / 2

    @property
    def link_bytes_per_s(self) -> float:
        return self.link_gb_per_s * GIGA

    @property
    def fast(self) -> TierSpec:
        """The memories of all GPUs. What their bytes cost is part of `decode_power_share`."""
        return TierSpec.of(self.gpus * self.hbm_capacity_gib, self.gpus * self.hbm_gb_per_s, 0.0, 0.0)

    @property
    def slow(self) -> TierSpec:
        """The link to the host, which holds nothing."""
        return TierSpec.of(0.0, self.gpus * self.host_gb_per_s, 0.0, 0.0)

    def degraded(self, ext_share: float, hb_share: float, clock_share: float) -> "Hardware":
        """Return GPUs with a share of their clock, at which a MAC costs what it did. Raise DeviceError for banks, which
        they don't lose, and for the link to the host, over which no step reads anything.
        """
        if hb_share < 1:
            raise DeviceError(f"hb_share is {hb_share}; a GPU loses no banks, and 1 is all it allows.")
        if ext_share < 1:
            raise DeviceError(f"ext_share is {ext_share}; a GPU reads nothing from its host, and 1 is all it allows.")
        return replace(self, clock_share=self.clock_share * clock_share)

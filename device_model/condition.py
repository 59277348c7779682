"""Hardware in less than its best condition: LPDDR throttled, HB banks lost, the clock of the logic die capped.

What a kind of hardware loses with each share is its own to say (`specs/kinds`); this is what ELMoE-3D's does.

    throttled = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", condition=Condition(ext_share=0.5))

What follows from what (sections and tables are ELMoE-3D's):

- LPDDR that is throttled delivers less, inside too: compute near memory gets the same share of its bandwidth.
- A lost bank takes its PE along. Each bank feeds one PE over a datapath of its own, so that bandwidth and throughput
  are coupled (5.1, Fig. 9a), and the paper sizes them together (6: 16 PEs with 4 GB, 32 with 8 GB). Such a PE could
  still work on what EXT streams to all (5.1, DP); that is given up here, which decoding never misses and a large
  prefill may. The pair counts as switched off: it leaks nothing, needs no refresh, and has no aggregation link. Half of
  the banks of 8 GB are therefore the 4 GB configuration, in every figure.
- The clock drives what is on the logic die: the PEs, their aggregation links, and the streamline (6: synthesised for
  1.0 GHz; at that clock the links are 256 and 1024 bits wide). HB keeps its bandwidth, for its 0.4 GHz are what tCCD
  allows the DRAM (6), and so does LPDDR with its own clock; but below 79 % of the clock the streamline is too slow for
  all that LPDDR delivers. At a lower clock the voltage stays, an assumption: a MAC costs the same, leakage too.
"""

from dataclasses import dataclass
from typing import TypeVar

from device_model.specs.hardware import Hardware
from device_model.specs.spec import DeviceError

AnyHardware = TypeVar("AnyHardware", bound=Hardware)


@dataclass(frozen=True, slots=True)
class Condition:
    """What is left of healthy hardware, as shares above 0 and at most 1: of the bandwidth of LPDDR (`ext_share`), of
    the HB banks with their PEs (`hb_share`, in whole banks), and of the clock (`clock_share`). Raise DeviceError for
    others."""

    ext_share: float = 1.0
    hb_share: float = 1.0
    clock_share: float = 1.0

    def __post_init__(self) -> None:
        for name in ("ext_share", "hb_share", "clock_share"):
            if not 0 < getattr(self, name) <= 1:
                raise DeviceError(f"{name} is {getattr(self, name)}; allowed is a number above 0 and at most 1.")

    def also(self, other: "Condition") -> "Condition":
        """Both at once: their shares multiply."""
        return Condition(
            self.ext_share * other.ext_share, self.hb_share * other.hb_share, self.clock_share * other.clock_share
        )

    def of(self, hardware: AnyHardware) -> AnyHardware:
        """`hardware` in this condition. DeviceError for what it can't lose."""
        if self == HEALTHY:
            return hardware
        return hardware.degraded(self.ext_share, self.hb_share, self.clock_share)


HEALTHY = Condition()

"""`mono3d`: chips of monolithic 3D DRAM, each over a die of near-memory processors, beside the dies of an xPU.

Stratum (arXiv 2510.05245), Tables 1 and 3. A bank has a PE of its own; the banks of a channel share a PU, and the PUs
of a chip form a ring. Rows are counted over all banks of all chips at once: a row of the device is one of each bank.
"""

import re
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from device_model.specs.hardware import TierNames
from device_model.specs.row_timing import stretched_ns, trcd_ns
from device_model.specs.spec import (
    BITS_PER_BYTE,
    GIB,
    GIGA,
    NANO,
    PICO,
    TERA,
    Contradiction,
    Count,
    DeviceError,
    Flag,
    Name,
    Positive,
    PositiveOrNone,
    Series,
    SpecError,
    System,
    TierSpec,
    ValueRule,
)
from device_model.step import FloatArray

KIND = "mono3d"
Kind = Annotated[str, ValueRule(KIND, lambda v: v == KIND)]
VARIANT = re.compile(r"(?:(?P<layers>\d{1,9}))?(?P<dash>-)?(?P<flat>flat)?")
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Hardware:
    """Memory chips with near-memory processors, and the xPU dies that they surround."""

    tiers: ClassVar[TierNames] = TierNames("mono3d", "interposer")

    calibration: Name
    dies: Count
    die_fp16_tflops: Positive
    die_tdp_w: Positive
    chips: Count
    channels_per_chip: Count
    banks_per_channel: Count
    row_bytes: Count
    chip_capacity_gib: Positive
    layers: Count
    trcd_ns: Series  # by tier, with `trcd_layers` layers
    trcd_layers: Count
    trp_ns: Positive
    tras_beyond_trcd_ns: Positive
    segment_layers: Count  # of which two stand side by side in the place of `trcd_layers`
    segment_access_ratio: Positive  # of the slowest tier's access time to the fastest's, in such a segment
    read_pj_per_bit: Positive
    tile_edge: Count  # rows and columns of the weights that a PE multiplies in a cycle
    clock_ghz: Positive
    mac_pj: Positive
    logic_w: Positive  # of a chip, beyond its MACs
    special_function_lanes: Count  # of a PU
    ring_gb_per_s: Positive  # of a link between two PUs, in one direction
    interposer_bits: Count  # of a chip
    interposer_gbit_per_s: Positive  # of one of these
    bridge_gb_per_s: PositiveOrNone = 0.0  # between two xPU dies, in one direction
    tiered: Flag = True  # or all rows are given the time of the slowest
    kind: Kind = KIND
    system: System = "stratum"

    def __post_init__(self) -> None:
        if self.dies > 1 and not self.bridge_gb_per_s:
            raise Contradiction("bridge_gb_per_s", "a number above 0 with more than one xPU die")
        if self.segment_access_ratio < 1:
            raise Contradiction("segment_access_ratio", "at least 1: the slowest tier takes no less than the fastest")
        times = self.trc_ns
        if times[0] <= 0 or (np.diff(times) < -ROUNDING).any():
            allowed = f"a series whose law (row_timing) rises from above 0 with {self.layers:,} layers, too"
            raise Contradiction("trcd_ns", f"{allowed}, or with layers = {self.trcd_layers} any that rises")

    @property
    def pus(self) -> int:
        """PUs of all chips."""
        return self.chips * self.channels_per_chip

    @property
    def pes(self) -> int:
        """PEs, and banks, of all chips."""
        return self.pus * self.banks_per_channel

    @property
    def row_bytes_of_all(self) -> int:
        """One row of each bank."""
        return self.pes * self.row_bytes

    @property
    def rows(self) -> int:
        """Rows of a bank."""
        return int(self.chips * self.chip_capacity_gib * GIB / self.row_bytes_of_all)

    @property
    def tile_weights(self) -> int:
        return self.tile_edge**2

    @property
    def cycle_s(self) -> float:
        return NANO / self.clock_ghz

    @property
    def near_macs_per_s(self) -> float:
        """Multiply-accumulates per second of all PEs."""
        return self.pes * self.tile_weights / self.cycle_s

    @property
    def die_macs_per_s(self) -> float:
        """FP16 multiply-accumulates per second of all xPU dies, at two operations each."""
        return self.dies * self.die_fp16_tflops * TERA / 2

    @property
    def special_functions_per_s(self) -> float:
        """Element-wise operations per second of all PUs."""
        return self.pus * self.special_function_lanes / self.cycle_s

    @property
    def ring_bytes_per_s(self) -> float:
        """What a PU passes on, in both directions."""
        return 2 * self.ring_gb_per_s * GIGA

    @property
    def bridge_bytes_per_s(self) -> float:
        return self.bridge_gb_per_s * GIGA

    @property
    def read_j_per_byte(self) -> float:
        """Of each byte of an activated row, wanted or not."""
        return self.read_pj_per_bit * PICO * BITS_PER_BYTE

    @property
    def j_per_mac(self) -> float:
        return self.mac_pj * PICO

    @property
    def trc_ns(self) -> FloatArray:
        """From one activation of a bank to the next [tiers], in ns: tRC = tRCD + (tRAS - tRCD) + tRP (Table 1).

        Two segments of `segment_layers` side by side have the ratio that is published for them (6.3.6), not that of
        the law. Without tiers all rows are given the time of the slowest (6.3.2).
        """
        published, beyond_ns = np.array(self.trcd_ns), self.tras_beyond_trcd_ns + self.trp_ns
        if self.layers == self.segment_layers:
            times = stretched_ns(published + beyond_ns, self.segment_access_ratio)
        else:
            times = trcd_ns(published, self.trcd_layers, self.layers) + beyond_ns
        return times if self.tiered else np.full_like(times, times[-1])

    @property
    def fast(self) -> TierSpec:
        """All chips; their bandwidth is that of the fastest rows, of which all bytes are wanted."""
        bytes_per_s = self.row_bytes_of_all / (float(self.trc_ns[0]) * NANO)
        return TierSpec(self.chips * self.chip_capacity_gib * GIB, bytes_per_s, self.read_j_per_byte)

    @property
    def slow(self) -> TierSpec:
        """The interposer from the chips to the xPU, which holds nothing."""
        gb_per_s = self.chips * self.interposer_bits * self.interposer_gbit_per_s / BITS_PER_BYTE
        return TierSpec.of(0.0, gb_per_s, 0.0, 0.0)

    def variant(self, name: str) -> "Hardware | None":
        """Return the same hardware with other layers ("256"), without tiers ("flat"), or both ("256-flat"); None for
        another name. Raise SpecError for fewer layers than tiers, more than the file's, which nobody has built, or such
        as the law of its rows has no times for.
        """
        match = VARIANT.fullmatch(name)
        if match is None or bool(match["dash"]) != bool(match["layers"] and match["flat"]) or not name:
            return None
        layers, least = int(match["layers"] or self.layers), len(self.trcd_ns)
        if not least <= layers <= self.layers:
            raise SpecError(f"{layers} layers are asked for; allowed are {least} (one a tier) to {self.layers}.")
        try:
            return replace(self, layers=layers, tiered=self.tiered and not match["flat"])
        except Contradiction as error:
            raise SpecError(f"{error.key} is {list(self.trcd_ns)}; allowed is {error.allowed}.") from None

    def degraded(self, ext_share: float, hb_share: float, clock_share: float) -> "Hardware":
        """Return chips with shares of the interposer's bandwidth, of the banks of each channel with their PEs, and of
        the clock that drives PEs and ring. Raise DeviceError if no bank is left.
        """
        banks = int(hb_share * self.banks_per_channel + ROUNDING)
        if not banks:
            least = 1 / self.banks_per_channel
            raise DeviceError(f"hb_share is {hb_share}; allowed is at least {least:.4g}, one bank of each channel.")
        return replace(
            self,
            banks_per_channel=banks,
            chip_capacity_gib=self.chip_capacity_gib * banks / self.banks_per_channel,
            clock_ghz=self.clock_ghz * clock_share,
            ring_gb_per_s=self.ring_gb_per_s * clock_share,
            interposer_gbit_per_s=self.interposer_gbit_per_s * ext_share,
        )

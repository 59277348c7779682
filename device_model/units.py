"""The units of an xPU as `roofline` takes them: what computes, at which rates and at which price."""

from functools import lru_cache

from device_model.roofline import NEVER_BOUND, Unit
from device_model.specs.kinds.hb_xpu import Hardware
from device_model.specs.spec import EnergyEstimate

XPU = "xPU"
PE_BITS = 8
"""The width of both operands at the rates of W8A8 (ELMoE-3D, Table 1)."""


def xpu_unit(hardware: Hardware, estimate: EnergyEstimate, ext_bytes_per_s: float) -> Unit:
    """All PEs of the logic die, each with its HB bank, and `ext_bytes_per_s` of EXT through the streamline."""
    return Unit(
        name=XPU,
        macs_per_s=hardware.macs_per_s,
        hb_bytes_per_s=hardware.hb.bytes_per_s if hardware.hb_capacity_gib else NEVER_BOUND,
        ext_bytes_per_s=min(ext_bytes_per_s, hardware.streamline_bytes_per_s),
        link_bytes_per_s=hardware.pe_count * hardware.aggregation_link_bytes_per_s,
        j_per_mac=estimate.j_per_mac,
        hb_j_per_byte=hardware.hb.j_per_byte,
        ext_j_per_byte=hardware.ext.j_per_byte,
        link_j_per_byte=estimate.link_j_per_byte,
    )


def with_ext(unit: Unit, hardware: Hardware, ext_bytes_per_s: float) -> Unit:
    """Return the unit with another grant of EXT's bandwidth."""
    return unit._replace(ext_bytes_per_s=min(ext_bytes_per_s, hardware.streamline_bytes_per_s))


@lru_cache(maxsize=256)
def at_four_bits(unit: Unit, hardware: Hardware) -> Unit:
    """Return the unit with weights of one slice: bit-sliced MACs do as many more of them (Table 1, W4A8), for as much
    less energy each (an estimate)."""
    more = hardware.int4_tops / hardware.int8_tops
    return unit._replace(macs_per_s=unit.macs_per_s * more, j_per_mac=unit.j_per_mac / more)


@lru_cache(maxsize=4096)
def at_width(unit: Unit, bits: float) -> Unit:
    """Return the unit for MACs whose operands both have so many bits, at least the 8 of its rates.

    A PE has integer MACs of 8 bits (ELMoE-3D, 4.1): two operands of 16 take four such products, in time and in energy.
    That is an estimate, by the rule of Table 1, where half the bits of one operand double the rate; it counts the bits
    of a float as if they were an integer's, as the paper prices no floating point.
    """
    products = max(1.0, bits / PE_BITS) ** 2
    return unit._replace(macs_per_s=unit.macs_per_s / products, j_per_mac=unit.j_per_mac * products)


def of_weights(unit: Unit, weight_bits: float) -> Unit:
    """Return the unit for MACs of activations with weights of so many bits: with those of 16 bits both operands are as
    wide, an estimate as in `at_width`. Of fewer bits they are integers and scales (8.5 bits are INT8 in groups of 32),
    which the rates of Table 1 are for."""
    return at_width(unit, weight_bits) if weight_bits >= 2 * PE_BITS else unit


@lru_cache(maxsize=4096)
def at_share(unit: Unit, share: float) -> Unit:
    """Return the unit with that share of its PEs busy on what EXT streams in: throughput falls, EXT's bandwidth does
    not (ELMoE-3D, 5.1, Fig. 9b: decoupled). On the shipped hardware this never holds a step up: one token's MACs on one
    PE take an eightieth of the time in which EXT delivers their weights."""
    return unit._replace(macs_per_s=unit.macs_per_s * min(1.0, share))


@lru_cache(maxsize=4096)
def without_price(unit: Unit) -> Unit:
    """Return the unit for MACs whose joules are counted elsewhere."""
    return unit._replace(j_per_mac=0.0)

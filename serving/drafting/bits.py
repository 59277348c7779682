"""Weights of which a part is a smaller weight: the bit-nested format of ELMoE-3D (3.3, 4.3), in numpy.

    int8 = quantize(weights)                                   # (..., K) -> values (..., K), scales (..., K / 32)
    slices = split(int8.values, 4)                             # MSB slice for HB, LSB slice for EXT
    draft = dequantize(augmented(slices), int8.scales)         # the MSB slice alone
    target = dequantize(int8.values, int8.scales)              # both slices: the INT8 weight, exactly

An INT8 weight w lies on a grid of 256 steps of its group's scale. Its MSB slice of b bits is the arithmetic shift
w >> (8 - b) of its two's complement, signed and rounded towards minus infinity also where w is negative; its LSB slice
is the 8 - b bits below, unsigned. So w = msb 2^(8-b) + lsb for every w from -128 to 127, and nothing else is stored.

What the MSB slice stands for when it is alone, with the error e = w - value in steps of the 8-bit grid:

    truncated   msb 2^(8-b)               e = lsb              0 to 2^(8-b) - 1             mean 7.5 at 4 bits
    augmented   msb 2^(8-b) + 2^(7-b)     e = lsb - 2^(7-b)    -2^(7-b) to 2^(7-b) - 1      mean -0.5 at 4 bits
    rounded     nearest msb that fits     the same range, but up to 2^(8-b) - 1 at the top of the grid

(means over uniform w; at 8 bits all of them are w). Augmented values are symmetric about 0 and are never 0: a zero
weight is read as half a unit of the slice. Only a group of zeros, having the scale 0, stays zero. So
augmentation wants groups whose weights spread over the grid: of Gaussian weights it makes smaller errors than rounding,
as 7.3 C has it for acceptance rates of a real model; of weights with heavy tails (Student's t, 3 degrees of freedom)
it makes larger ones at 3 and 4 bits.

`quantize` is symmetric and never makes -128: the largest weight of a group becomes 127 or -127, so that a weight and
its negative have the same size. The MSB slice still uses all of its values, since -127 >> 4 is -8.
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from device_model.slices import GROUP

Int8Array = NDArray[np.int8]
UInt8Array = NDArray[np.uint8]
Int16Array = NDArray[np.int16]
Float16Array = NDArray[np.float16]
Float64Array = NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)

WEIGHT_BITS = 8


class Quantized(NamedTuple):
    """Integer weights and their scales: weight = value * scale, with one scale for 32 values of the last axis."""

    values: Int8Array  # (..., K)
    scales: Float16Array  # (..., K / 32)


class Slices(NamedTuple):
    """INT8 weights, cut. `split` makes one."""

    msb: Int8Array  # (..., K), signed, from -2^(bits-1) to 2^(bits-1) - 1
    lsb: UInt8Array  # (..., K), from 0 to 2^(8-bits) - 1
    bits: int  # width of the MSB slice, 3 to 8


def quantize(weights: NDArray[np.floating], bits: int = WEIGHT_BITS) -> Quantized:
    """Symmetric quantization of `weights` (..., K) in groups of 32 along the last axis (7: INT8 G32, FP16 scales).

    With fewer `bits` than 8 it is the dedicated quantization of Fig. 17c: a scale of its own, and nothing shared with
    the INT8 weight. A weight is at most half a scale off. ValueError for what is not float16, 32 or 64, is not finite,
    is too large for an FP16 scale, or has a K that is no multiple of 32: padding would add bytes that no traffic
    figure counts, and the models have no such K.
    """
    _check_bits(bits)
    groups = _in_groups(_checked(weights).astype(np.float64))
    largest = 2 ** (bits - 1) - 1
    scales = _scales(np.abs(groups).max(axis=-1), largest)
    # A group of zeros has the scale 0; any divisor leaves its values 0.
    divisor = np.where(scales > 0, scales, 1).astype(np.float64)
    values = np.rint(groups / divisor[..., None]).astype(np.int8)
    return Quantized(values.reshape(weights.shape), scales)


def dequantize(values: NDArray[np.integer], scales: Float16Array) -> Float64Array:
    """Weights (..., K) from integers (..., K) on the grid of `scales` (..., K / 32). Exact in float64."""
    weights: Float64Array = _in_groups(values) * scales.astype(np.float64)[..., None]
    return weights.reshape(values.shape)


def split(values: Int8Array, bits: int) -> Slices:
    """Cut INT8 weights into an MSB slice of `bits` (3 to 8) and an LSB slice of the others, all 0 if there are none."""
    _check_bits(bits)
    if values.dtype != np.int8:
        raise ValueError(f"Only int8 weights can be split; these are {values.dtype}.")
    low = WEIGHT_BITS - bits
    return Slices(values >> low, values.view(np.uint8) & np.uint8(2**low - 1), bits)


def truncated(slices: Slices) -> Int16Array:
    """Return the MSB slice alone on the 8-bit grid, with zeros below it: never above the weight (4.3)."""
    return _left_aligned(slices, wired=0)


def augmented(slices: Slices) -> Int16Array:
    """Return the MSB slice alone on the 8-bit grid, with a 1 wired in below it: the middle of its weights (4.3).

    At 8 bits there is no bit below, and the weight is itself.
    """
    return _left_aligned(slices, wired=1)


def rounded(values: Int8Array, bits: int) -> Int16Array:
    """INT8 weights rounded to a slice of `bits`, on the 8-bit grid (4.3). Halves go up, so that e is -8 to 7 at 4 bits.

    At the top of the grid the slice overflows: at 4 bits 120 to 127 would need a slice of 8, but it ends at 7, so that
    they become 112 and are 8 to 15 off. That is why it does not nest in 8 bits: with the slice altered, the remainder
    to be stored beside it is -8 to 15, which takes 5 bits, or 9 with the slice (as NestQuant stores them). Four bits
    would do only on a narrower grid that gives 120 to 127 up.
    """
    _check_bits(bits)
    low = WEIGHT_BITS - bits
    half = 2**low // 2
    slice_ = (values.astype(np.int16) + half) >> low
    clipped: Int16Array = np.minimum(slice_, 2 ** (bits - 1) - 1) << low
    return clipped


def _left_aligned(slices: Slices, wired: int) -> Int16Array:
    """Return the field that the multiplier gets, a bit wider than the slice, ending in `wired`, shifted to its
    place."""
    if slices.bits == WEIGHT_BITS:
        return slices.msb.astype(np.int16)
    field: Int16Array = 2 * slices.msb.astype(np.int16) + np.int16(wired)
    return field << (WEIGHT_BITS - slices.bits - 1)


def _scales(largest_weight: Float64Array, largest_value: int) -> Float16Array:
    """FP16 scales that bring the largest weight of each group to `largest_value` or just below it.

    Rounded up: a scale rounded down, coarsely so among FP16's subnormals, would clip the largest weight, and one
    rounded to zero would lose the group.
    """
    with np.errstate(over="ignore"):
        scales = (largest_weight / largest_value).astype(np.float16)
        short = scales.astype(np.float64) * largest_value < largest_weight
        scales = np.where(short, np.nextafter(scales, np.float16(np.inf)), scales)
    if np.isinf(scales).any():
        raise ValueError(f"A weight of {largest_weight.max():.3g} is too large for an FP16 scale, which ends at 65504.")
    return scales


def _in_groups(values: NDArray[Number]) -> NDArray[Number]:
    """(..., K) -> (..., K / 32, 32)."""
    if values.ndim == 0 or values.shape[-1] % GROUP:
        raise ValueError(f"The last axis must be a multiple of {GROUP} long; the shape is {values.shape}.")
    return values.reshape(*values.shape[:-1], values.shape[-1] // GROUP, GROUP)


def _checked(weights: NDArray[np.floating]) -> NDArray[np.floating]:
    if weights.dtype not in (np.float16, np.float32, np.float64):
        raise ValueError(f"Weights must be float16, float32 or float64; these are {weights.dtype}.")
    if not np.isfinite(weights).all():
        raise ValueError("A weight is NaN or infinite.")
    return weights


def _check_bits(bits: int) -> None:
    if not 3 <= bits <= WEIGHT_BITS:
        raise ValueError(f"A slice has 3 to {WEIGHT_BITS} bits, not {bits}.")

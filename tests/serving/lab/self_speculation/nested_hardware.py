"""What hardware does with nested weights (ELMoE-3D, 4.3, 5.2), as a reference: slices in memory, and their products."""

import numpy as np

from device_model.slices import GROUP
from serving.drafting.bits import WEIGHT_BITS, Slices, truncated


def join(slices: Slices) -> np.ndarray:
    """The INT8 weights that were split, exactly: left-aligned MSB slice, a 0 wired below it, plus the LSB slice."""
    return (truncated(slices) + slices.lsb).astype(np.int8)


def pack(values: np.ndarray, width: int) -> np.ndarray:
    """Slices of `width` bits (0 to 8) as memory holds them: int8 or uint8 (..., K) -> bytes (..., ceil(K width / 8)).

    The first weight takes the highest bits; int8 is stored as two's complement. At 4 bits two weights share a byte.
    """
    low, high = (-(2**width // 2), 2**width // 2 - 1) if values.dtype == np.int8 else (0, 2**width - 1)
    assert ((low <= values) & (values <= high)).all()
    fields = np.unpackbits(values.view(np.uint8)[..., None], axis=-1)[..., WEIGHT_BITS - width :]
    return np.packbits(fields.reshape(*values.shape[:-1], values.shape[-1] * width), axis=-1)


def unpack(packed: np.ndarray, width: int, length: int) -> np.ndarray:
    """The `length` (K) unsigned fields of each row that were packed with `width`. For an MSB slice, see `signed`."""
    fields = np.zeros((*packed.shape[:-1], length, WEIGHT_BITS), dtype=np.uint8)
    stored = np.unpackbits(packed, axis=-1, count=length * width)
    fields[..., WEIGHT_BITS - width :] = stored.reshape(*packed.shape[:-1], length, width)
    return np.packbits(fields, axis=-1)[..., 0]


def signed(fields: np.ndarray, width: int) -> np.ndarray:
    """Unsigned fields of `width` bits read as two's complement."""
    low = WEIGHT_BITS - width
    return (fields << low).view(np.int8) >> low


def group_psums(values: np.ndarray, activations: np.ndarray) -> np.ndarray:
    """Integer products (rows, K / 32) of weights (rows, K) and activations (K,): a PSUM for each group.

    A PSUM ends with the group, as the next one has another scale. It is at most 32 * 2^14 = 2^19, so int32 is exact.
    """
    groups = (values.reshape(len(values), -1, GROUP), activations.reshape(-1, GROUP))
    return np.einsum("rgk,gk->rg", *groups, dtype=np.int32)


def sliced_psums(slices: Slices, activations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """PSUMs (rows, K / 32) of the MSB and of the LSB slice, both on the 8-bit grid; their sum is the INT8 product.

    The two are computed apart, where HB and EXT bring the slices, and only they are exchanged, not weights (5.2).
    """
    return group_psums(truncated(slices), activations), group_psums(slices.lsb, activations)


def matvec(psums: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Products (rows,) of the quantized weights and the integer activations: PSUMs of the groups times their scales."""
    return (psums * scales.astype(np.float64)).sum(axis=-1)

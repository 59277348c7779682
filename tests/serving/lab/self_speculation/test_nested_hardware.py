"""Are nested slices, in memory and in products, exactly the INT8 weight, as ELMoE-3D (4.3 and 5.2) says?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from device_model.slices import bits_per_weight
from serving.drafting.bits import Slices, augmented, dequantize, quantize, split
from tests.serving.lab.self_speculation.nested_hardware import (
    group_psums,
    join,
    matvec,
    pack,
    signed,
    sliced_psums,
    unpack,
)

EVERY_WEIGHT = np.arange(-128, 128).astype(np.int8)
widths = st.integers(3, 8)
seeds = st.integers(0, 2**32 - 1)
rows = st.integers(1, 4)


def int8s(*shape):
    return st.tuples(*shape).flatmap(lambda shape: arrays(np.int8, shape))


@pytest.mark.parametrize("bits", range(3, 9))
def test_both_slices_give_every_weight_back(bits):
    slices = split(EVERY_WEIGHT, bits)
    assert (join(slices) == EVERY_WEIGHT).all() and join(slices).dtype == np.int8


# Memory


@given(int8s(rows, st.integers(0, 40)), widths)
def test_packed_slices_come_back(values, bits):
    msb, lsb, _ = split(values, bits)
    length = values.shape[-1]
    read_msb = signed(unpack(pack(msb, bits), bits, length), bits)
    read_lsb = unpack(pack(lsb, 8 - bits), 8 - bits, length)
    assert (read_msb == msb).all() and (read_lsb == lsb).all()
    assert (join(Slices(read_msb, read_lsb, bits)) == values).all()


def test_two_4_bit_slices_share_a_byte():
    packed = pack(np.array([1, -1, -8, 7], dtype=np.int8), 4)
    assert packed.tolist() == [0x1F, 0x87]


@pytest.mark.parametrize("bits", range(3, 9))
def test_packed_weights_take_the_bytes_that_are_claimed(bits):
    values, scales = quantize(np.random.default_rng(3).standard_normal((16, 256)))
    msb, lsb, _ = split(values, bits)
    draft = pack(msb, bits).nbytes + scales.nbytes
    assert draft * 8 == bits_per_weight(bits) * values.size
    # Both slices and the one scale are the INT8 weight: the draft model takes no byte of its own.
    assert draft + pack(lsb, 8 - bits).nbytes == values.nbytes + scales.nbytes


def test_the_footprints_of_the_paper():
    assert (bits_per_weight(4), bits_per_weight(8)) == (4.5, 8.5)


# Products


@given(int8s(rows, st.just(64)), arrays(np.int8, 64), widths)
def test_psums_of_the_slices_add_up_to_the_int8_product(values, activations, bits):
    msb, lsb = sliced_psums(split(values, bits), activations)
    exact = (values.astype(int) * activations.astype(int)).reshape(-1, 2, 32).sum(axis=-1)
    assert (msb + lsb == exact).all()
    assert (group_psums(values, activations) == exact).all()


def test_the_largest_psum_fits():
    least = np.full((1, 64), -128, dtype=np.int8)
    assert group_psums(least, least[0]).tolist() == [[2**19, 2**19]]


@given(int8s(rows, st.just(64)), arrays(np.int8, 64), st.integers(3, 7))
def test_augmentation_adds_half_a_unit_of_every_activation_to_the_msb_psum(values, activations, bits):
    slices = split(values, bits)
    msb, _ = sliced_psums(slices, activations)
    offset = 2 ** (7 - bits) * activations.astype(int).reshape(2, 32).sum(axis=-1)
    assert (group_psums(augmented(slices), activations) == msb + offset).all()


@given(seeds, widths)
def test_the_sliced_product_is_the_product_of_the_dequantized_weights(seed, bits):
    draw = np.random.default_rng(seed)
    values, scales = quantize(draw.standard_normal((8, 96)))
    activations = draw.integers(-127, 128, 96).astype(np.int8)
    product = matvec(sum(sliced_psums(split(values, bits), activations)), scales)
    assert (product == matvec(group_psums(values, activations), scales)).all()
    assert product == pytest.approx(dequantize(values, scales) @ activations, rel=1e-9, abs=1e-9)

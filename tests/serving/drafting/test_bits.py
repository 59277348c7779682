"""Is the bit-nested format what ELMoE-3D (4.3) says: scales that fit, slices of their widths, good drafts alone?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from device_model.slices import GROUP
from serving.drafting.bits import augmented, dequantize, quantize, rounded, split, truncated

EVERY_WEIGHT = np.arange(-128, 128).astype(np.int8)
widths = st.integers(3, 8)
seeds = st.integers(0, 2**32 - 1)
rows = st.integers(1, 4)
columns = st.sampled_from([32, 64, 96])


def weights_of(dtype, largest):
    finite = st.floats(-largest, largest, width=np.dtype(dtype).itemsize * 8)
    return st.tuples(rows, columns).flatmap(lambda shape: arrays(dtype, shape, elements=finite))


# Within 3 * 65504, the largest weight that the FP16 scale of 3 bits reaches.
weights = st.one_of(weights_of(np.float16, 2.0**15), weights_of(np.float32, 2.0**17), weights_of(np.float64, 2.0**17))


def errors(values, approximation):
    """e = w - value, in steps of the 8-bit grid."""
    return values.astype(int) - approximation


def relative_error(weights, approximation):
    return np.linalg.norm(weights - approximation) / np.linalg.norm(weights)


# Quantization


@given(weights, widths)
def test_a_quantized_weight_is_at_most_half_a_scale_off(weights, bits):
    values, scales = quantize(weights, bits)
    off = np.abs(weights.astype(np.float64) - dequantize(values, scales))
    assert (off <= np.repeat(scales.astype(np.float64), GROUP, axis=-1) / 2 * (1 + 1e-12)).all()


@given(weights, widths)
def test_the_range_is_symmetric(weights, bits):
    quantized = quantize(weights, bits)
    mirrored = quantize(-weights, bits)
    assert np.abs(quantized.values.astype(int)).max() <= 2 ** (bits - 1) - 1
    assert (quantized.values == -mirrored.values).all() and (quantized.scales == mirrored.scales).all()


@given(seeds, st.sampled_from([np.float16, np.float32, np.float64]))
def test_the_largest_weight_of_a_group_takes_the_end_of_the_range(seed, dtype):
    weights = np.random.default_rng(seed).standard_normal((4, 64)).astype(dtype)
    assert (np.abs(quantize(weights).values.reshape(4, 2, 32)).max(axis=-1) == 127).all()


def test_the_scale_is_rounded_by_less_than_a_thousandth():
    weights = np.random.default_rng(1).standard_normal((64, 256))
    exact = np.abs(weights.reshape(64, 8, 32)).max(axis=-1) / 127
    ratio = quantize(weights).scales / exact
    assert ratio.min() >= 1 and ratio.max() < 1 + 2**-10


def test_quantizing_what_was_quantized_changes_nothing():
    first = quantize(np.random.default_rng(2).standard_normal((8, 64)))
    again = quantize(dequantize(*first))
    assert (again.values == first.values).all() and (again.scales == first.scales).all()


@given(widths)
def test_a_group_of_zeros_stays_zero_with_any_slice(bits):
    weights = np.ones((1, 64), dtype=np.float32)
    weights[0, :32] = 0
    values, scales = quantize(weights)
    assert scales[0, 0] == 0 and scales[0, 1] > 0
    for treated in (values, truncated(split(values, bits)), augmented(split(values, bits)), rounded(values, bits)):
        assert (dequantize(treated, scales)[0, :32] == 0).all()


def test_one_huge_weight_takes_its_group_with_it_and_no_other():
    weights = np.full((1, 64), 0.01)
    weights[0, 5] = 1000.0
    values = quantize(weights).values
    assert values[0, 5] == 127 and np.count_nonzero(values[0, :32]) == 1
    assert (values[0, 32:] == 127).all()
    # What augmentation costs here: the others read as half a unit of the slice, where truncation has their 0.
    assert np.delete(augmented(split(values, 4))[0, :32], 5) == pytest.approx(8)


@pytest.mark.parametrize("tiny", [5e-324, 1e-300, 1e-9, 2.0**-24, 1e-4])
def test_the_smallest_weights_keep_a_scale(tiny):
    values, scales = quantize(np.full((1, 32), tiny))
    assert scales[0, 0] > 0
    assert abs(dequantize(values, scales)[0, 0] - tiny) <= float(scales[0, 0]) / 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_and_infinity_are_refused(bad, dtype):
    weights = np.zeros((2, 32), dtype=dtype)
    weights[1, 3] = bad
    with pytest.raises(ValueError, match="NaN or infinite"):
        quantize(weights)


@pytest.mark.parametrize("large", [8.4e6, 1e30, 1e308])
def test_a_weight_beyond_the_fp16_scale_is_refused(large):
    with pytest.raises(ValueError, match="too large for an FP16 scale"):
        quantize(np.full(32, large))
    assert quantize(np.full(32, 127 * 65504.0)).scales[0] == 65504


@pytest.mark.parametrize("shape", [(), (31,), (2, 33), (4, 1)])
def test_a_last_axis_that_is_no_multiple_of_32_is_refused(shape):
    with pytest.raises(ValueError, match="multiple of 32"):
        quantize(np.zeros(shape))


def test_an_empty_matrix_is_quantized_to_an_empty_one():
    assert quantize(np.zeros((0, 64))).scales.shape == (0, 2)


@pytest.mark.parametrize("weights", [np.zeros(32, dtype=np.int32), np.zeros(32, dtype=complex)])
def test_other_types_than_floats_are_refused(weights):
    with pytest.raises(ValueError, match="float16, float32 or float64"):
        quantize(weights)


@pytest.mark.parametrize("bits", [-1, 2, 9])
def test_widths_outside_3_to_8_are_refused(bits):
    for call in (lambda: quantize(np.zeros(32), bits), lambda: split(EVERY_WEIGHT, bits)):
        with pytest.raises(ValueError, match="3 to 8 bits"):
            call()


# Slices


@pytest.mark.parametrize("bits", range(3, 9))
def test_each_slice_uses_just_its_bits(bits):
    msb, lsb, _ = split(EVERY_WEIGHT, bits)
    assert (msb.min(), msb.max()) == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    assert (lsb.min(), lsb.max()) == (0, 2 ** (8 - bits) - 1)


def test_splitting_refuses_anything_but_int8():
    with pytest.raises(ValueError, match="int8"):
        split(EVERY_WEIGHT.astype(np.int16), 4)


@pytest.mark.parametrize("bits", range(3, 9))
def test_truncation_is_never_above_the_weight(bits):
    e = errors(EVERY_WEIGHT, truncated(split(EVERY_WEIGHT, bits)))
    assert (e.min(), e.max()) == (0, 2 ** (8 - bits) - 1)
    assert e.mean() == (2 ** (8 - bits) - 1) / 2


@pytest.mark.parametrize("bits", range(3, 8))
def test_augmentation_is_off_by_half_a_unit_either_way(bits):
    half = 2 ** (7 - bits)
    e = errors(EVERY_WEIGHT, augmented(split(EVERY_WEIGHT, bits)))
    assert (e.min(), e.max()) == (-half, half - 1)
    assert e.mean() == -0.5


def test_the_errors_at_4_bits_are_those_of_the_paper():
    clipping = errors(EVERY_WEIGHT, truncated(split(EVERY_WEIGHT, 4)))
    augmentation = errors(EVERY_WEIGHT, augmented(split(EVERY_WEIGHT, 4)))
    assert (clipping.min(), clipping.max(), clipping.mean()) == (0, 15, 7.5)
    assert (augmentation.min(), augmentation.max(), augmentation.mean()) == (-8, 7, -0.5)


@given(seeds, st.integers(3, 6))
def test_uniform_weights_have_these_errors_on_average(seed, bits):
    values = np.random.default_rng(seed).integers(-127, 128, 20_000).astype(np.int8)
    slices = split(values, bits)
    spread = 2 ** (8 - bits) / np.sqrt(12 * values.size)
    assert errors(values, augmented(slices)).mean() == pytest.approx(-0.5, abs=7 * spread)
    assert errors(values, truncated(slices)).mean() == pytest.approx((2 ** (8 - bits) - 1) / 2, abs=7 * spread)


@pytest.mark.parametrize("bits", range(3, 8))
def test_augmented_weights_are_symmetric_and_never_zero(bits):
    grid = set(augmented(split(EVERY_WEIGHT, bits)).tolist())
    assert grid == {-value for value in grid} and 0 not in grid


def test_an_augmented_4_bit_slice_fits_the_5_bit_multiplier():
    field = augmented(split(EVERY_WEIGHT, 4)) // 8
    assert (field % 2 == 1).all() and (field.min(), field.max()) == (-15, 15)


@pytest.mark.parametrize("bits", range(3, 8))
def test_rounding_is_off_by_half_a_unit_except_where_the_slice_overflows(bits):
    half = 2 ** (7 - bits)
    e = errors(EVERY_WEIGHT, rounded(EVERY_WEIGHT, bits))
    top = 128 - half <= EVERY_WEIGHT
    assert (e[~top].min(), e[~top].max()) == (-half, half - 1)
    assert (e[top].min(), e[top].max()) == (half, 2 * half - 1)


def test_a_rounded_slice_leaves_a_remainder_of_5_bits():
    remainder = errors(EVERY_WEIGHT, rounded(EVERY_WEIGHT, 4))
    assert (remainder.min(), remainder.max()) == (-8, 15)
    assert 16 < np.unique(remainder).size <= 32


def test_at_8_bits_every_treatment_is_the_weight_itself():
    slices = split(EVERY_WEIGHT, 8)
    for treated in (truncated(slices), augmented(slices), rounded(EVERY_WEIGHT, 8)):
        assert (treated == EVERY_WEIGHT).all()


# Draft quality on Gaussian weights


def gaussian_errors(seed, bits):
    weights = np.random.default_rng(seed).standard_normal((64, 1024))
    values, scales = quantize(weights)
    slices = split(values, bits)
    treated = {"truncated": truncated(slices), "augmented": augmented(slices), "rounded": rounded(values, bits)}
    found = {name: relative_error(weights, dequantize(integers, scales)) for name, integers in treated.items()}
    return found | {"dedicated": relative_error(weights, dequantize(*quantize(weights, bits)))}


@pytest.mark.slow
@given(seeds, st.integers(3, 7))
def test_truncation_is_worse_than_augmentation_and_rounding_no_better(seed, bits):
    found = gaussian_errors(seed, bits)
    assert found["augmented"] < found["truncated"]
    assert found["augmented"] < found["rounded"]


@pytest.mark.parametrize(("bits", "at_most"), [(3, 0.85), (4, 0.95), (5, 1.02), (6, 1.1), (7, 1.35), (8, 1.0)])
def test_augmentation_is_close_to_dedicated_quantization(bits, at_most):
    """The better of the two up to 5 bits: Fig. 17c has it "occasionally surpass" the scale of its own."""
    found = gaussian_errors(4, bits)
    assert found["augmented"] <= at_most * found["dedicated"]


@pytest.mark.parametrize(
    ("bits", "truncation", "rounding", "augmentation", "dedicated"),
    [
        (3, 0.342, 0.190, 0.178, 0.227),
        (4, 0.167, 0.094, 0.089, 0.097),
        (5, 0.080, 0.047, 0.045, 0.045),
        (6, 0.036, 0.025, 0.024, 0.022),
        (7, 0.0145, 0.0145, 0.0142, 0.0108),
        (8, 0.0054, 0.0054, 0.0054, 0.0054),
    ],
)
def test_measured_errors_of_gaussian_weights(bits, truncation, rounding, augmentation, dedicated):
    """Ours, measured: the paper prints acceptance rates (Fig. 17c), not errors of weights."""
    measured = {"truncated": truncation, "rounded": rounding, "augmented": augmentation, "dedicated": dedicated}
    assert gaussian_errors(5, bits) == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize("bits", [3, 4])
def test_heavy_tails_favour_rounding_over_augmentation(bits):
    """Where one weight sets the scale and the others are near 0, rounding has a 0 and augmentation has none."""
    weights = np.random.default_rng(6).standard_t(3, (256, 1024))
    values, scales = quantize(weights)
    rounding = relative_error(weights, dequantize(rounded(values, bits), scales))
    assert rounding < relative_error(weights, dequantize(augmented(split(values, bits)), scales))

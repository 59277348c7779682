"""Does Algorithm 1 place all bytes that are held, each once, hot experts before cold ones?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_device
from device_model.mono3d.layout import hot_experts
from device_model.specs.spec import DeviceError
from tests.device_model.mono3d.devices import SIZES, near, with_kv_share

MODELS = st.sampled_from([name for name in SIZES if name != "qwen2.5-32b"])


@given(MODELS, st.floats(0, 1))
def test_bytes_placed_are_bytes_held(model, share):
    device = with_kv_share(near(model), share)
    layout, size, hardware = device.layout, device.size, device.setup.hardware
    row_bytes = hardware.row_bytes_of_all
    placed = {
        "experts": (layout.hot_end - layout.shared_end + layout.cold_end - layout.cold_start) * row_bytes,
        "static": (layout.shared_end + layout.dense_end - layout.hot_end + hardware.rows - layout.near_end) * row_bytes,
    }
    # Experts have whole rows: those of the published models fill theirs to the last byte.
    assert placed["experts"] == pytest.approx(size.experts_bytes)
    assert placed["static"] == pytest.approx(size.static_bytes)
    free = hardware.rows * row_bytes - sum(placed.values())
    assert device.kv_capacity_tokens == int(free * (1 + 1e-12) // size.kv_bytes_per_token)


def test_experts_that_do_not_fill_their_rows_take_these_whole():
    device = load_device("auto", "stratum-s", "qwen3-30b-a3b")
    rows_bytes = device.layout.expert_rows * device.setup.hardware.row_bytes_of_all
    assert rows_bytes - device.setup.hardware.row_bytes_of_all < device.size.expert_bytes < rows_bytes
    assert device.placement.used(0)["hb", "experts"] == rows_bytes * device.size.experts
    assert sum(device.placement.used(device.kv_capacity_tokens).values()) <= device.hb.capacity_bytes


@given(MODELS, st.floats(0, 1))
def test_no_two_experts_share_a_row_and_hot_ones_are_faster(model, share):
    device = with_kv_share(near(model), share)
    layout, spec = device.layout, device.setup.model
    first = layout.slots(hot_experts(spec), device.size.experts)
    assert (np.diff(first) >= layout.expert_rows - 1e-6).all()
    assert first[0] == layout.shared_end and first[-1] + layout.expert_rows == pytest.approx(layout.cold_end)
    assert (np.diff(device.slots().trc_ns) >= -1e-9).all()


def test_rows_of_an_expert_are_those_of_algorithm_1():
    assert [near(model).layout.expert_rows for model in SIZES] == [12, 56, 0, 20]


@given(MODELS, st.floats(0.05, 1))
def test_keys_and_values_lie_between_hot_and_cold_experts_and_then_behind(model, share):
    device = with_kv_share(near(model), share)
    layout, times = device.layout, device.times
    between = layout.cold_start - layout.dense_end
    some = layout.kv_ns(times, between / 2)
    assert some == pytest.approx(times.between(layout.dense_end, layout.dense_end + between / 2))
    sizes = np.linspace(1.0, layout.near_end - layout.dense_end - (layout.cold_end - layout.cold_start), 50)
    assert (np.diff(layout.kv_ns(times, sizes)) >= -1e-9).all()


def test_a_model_without_experts_lies_evenly_over_all_tiers():
    device = near("qwen2.5-32b")
    assert device.layout.kv_ns(device.times, 100.0) == device.times.mean_ns


def test_a_model_that_does_not_fit_is_refused():
    with pytest.raises(
        DeviceError, match=r"does not fit: its weights take 93\.4 GB of the memory of the chips, whose .*34"
    ):
        load_device("auto", "stratum-s", "mixtral-8x7b")

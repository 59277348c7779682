"""Does everything have its place, and no tier more than it holds?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_device
from device_model.placement import place
from device_model.specs.spec import DeviceError, TierSpec

DEVICES = {
    (system, hardware): load_device(system, hardware, "qwen3-30b-a3b")
    for system in ("elmoe3d", "xpu")
    for hardware in ("elmoe3d-4gb", "elmoe3d-8gb")
}
devices = st.sampled_from(list(DEVICES.values()))
SIZE = DEVICES["elmoe3d", "elmoe3d-4gb"].size


@given(devices, st.floats(0, 1))
def test_no_tier_holds_more_than_its_capacity(device, filled):
    placement = device.placement
    held = placement.at(np.array([filled * device.kv_capacity_tokens]) * device.size.kv_bytes_per_token)
    hb = held.hb_static_bytes + held.hb_kv_bytes + held.hb_expert_bytes
    ext = held.ext_static_bytes + held.ext_kv_bytes + held.ext_expert_bytes
    assert hb[0] <= placement.hb_capacity_bytes * (1 + 1e-12)
    assert ext[0] <= placement.ext_capacity_bytes * (1 + 1e-12)
    assert all(np.all(np.asarray(part) >= 0) for part in held)


@given(devices, st.integers(0, 10**7))
def test_nothing_is_lost_between_the_tiers(device, tokens):
    held = device.placement.at(np.array([float(tokens)]) * device.size.kv_bytes_per_token)
    assert held.hb_static_bytes + held.ext_static_bytes == device.size.static_bytes
    assert held.hb_kv_bytes[0] + held.ext_kv_bytes[0] == pytest.approx(tokens * device.size.kv_bytes_per_token)
    assert held.ext_expert_bytes == device.size.experts_bytes


def test_the_kv_capacity_is_all_that_the_weights_leave():
    for device in DEVICES.values():
        full = device.placement.at((np.array([0.0, 1.0]) + device.kv_capacity_tokens) * SIZE.kv_bytes_per_token)
        ext = full.ext_static_bytes + full.ext_kv_bytes + full.ext_expert_bytes
        assert ext[0] <= device.placement.ext_capacity_bytes < ext[1]


def test_what_fits_into_the_small_hb():
    """4 GiB: 1.64 GB of static weights; one request of 1k leaves 2.6 GB for experts, 8.5 % of the 30.8 GB."""
    device = DEVICES["elmoe3d", "elmoe3d-4gb"]
    held = device.placement.at(np.array([1024.0, 60_000.0]) * SIZE.kv_bytes_per_token)
    assert held.hb_static_bytes == pytest.approx(1.637e9, rel=1e-3)
    assert held.hb_expert_bytes[0] / device.size.experts_bytes == pytest.approx(0.0846, rel=1e-2)
    assert held.hb_expert_bytes[1] == 0  # 60,000 tokens take 2.9 GB: no expert is cached, and 0.3 GB spills to EXT
    assert held.ext_kv_bytes[1] == pytest.approx(60_000 * 49_152 - (2**32 - held.hb_static_bytes))


def test_the_sizes_are_those_of_the_published_model():
    """30.5 B parameters, 3.3 B of them active, as the model's card says; INT8 with FP16 scales makes 8.5 bits each."""
    weights = (SIZE.static_bytes + SIZE.experts_bytes) / (8.5 / 8)
    assert weights == pytest.approx(30.5e9, rel=2e-3)
    active = SIZE.static_bytes / (8.5 / 8) + SIZE.expert_macs_per_token
    assert active == pytest.approx(3.3e9, rel=2e-2)
    assert SIZE.expert_macs_per_token == 48 * 8 * SIZE.expert_bytes / (8.5 / 8)


def test_a_model_too_large_for_the_external_memory_is_refused():
    with pytest.raises(DeviceError, match=r"does not fit: its weights take 30\.8 GB .* at most 20\.0 GB\."):
        place(SIZE, TierSpec(2**32, 1e12, 1e-12), TierSpec(20e9, 1e11, 1e-11))


def test_static_weights_spill_when_the_hb_is_too_small():
    placement = place(SIZE, TierSpec(1e9, 1e12, 1e-12), TierSpec(64e9, 1e11, 1e-11))
    assert placement.hb_static_bytes == 1e9
    assert placement.ext_static_bytes == SIZE.static_bytes - 1e9
    assert placement.at(np.array([100.0])).hb_kv_bytes[0] == 0


@pytest.mark.parametrize(("draft", "plainly"), [("elastic", 7.6e9), ("quant", 3.62e9)])
def test_drafts_of_slices_use_no_more_hb_than_all_slices_fill(draft, plainly):
    """OLMoE's experts take 12.9 GB in 16 bits, and 3.6 in slices of 4.5: half of 8 GB stays empty while they draft.
    Elastic-SD's HB has whole experts between; Quant-SD's has copies all the time."""
    placement = load_device("elmoe3d", "elmoe3d-8gb", "olmoe-1b-7b", draft).placement
    assert placement.used(0, drafting=True)["hb", "experts"] == pytest.approx(3.62e9, rel=2e-3)
    assert placement.used(0)["hb", "experts"] == pytest.approx(plainly, rel=6e-3)
    filled = placement.used(placement.kv_tokens_in_hb, drafting=True)
    assert filled["hb", "experts"] < 1e6 < filled["hb", "kv"]


@pytest.mark.parametrize("draft", [None, "eagle", "slm", "elastic", "quant"])
def test_experts_that_are_not_sliced_fill_hb_drafting_or_not(draft):
    """GPT-OSS's in MXFP4."""
    placement = load_device("elmoe3d", "elmoe3d-8gb", "gpt-oss-20b", draft).placement
    assert placement.used(1000, drafting=True) == placement.used(1000)

"""Are exchanges between PUs and with the xPU those of Stratum's pipeline (Fig. 9), hidden where reading is slower?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.step import StepPlan
from tests.device_model.mono3d.devices import SIZES, near
from tests.examples import examples

NEARLY = 1 - 1e-9
RING = 2 * 128e9  # bytes a second that a PU passes on, both ways round
models = st.sampled_from(list(SIZES))
batches = st.integers(1, 64)


def parts(device, batch):
    (stage,) = device.explain(StepPlan.of(*[(1, 500)] * batch))
    return {part.name: part for group in stage.groups for part in group}


@given(batches)
def test_a_pu_passes_on_all_but_its_own_sixteenth_of_what_its_chip_gathers_and_sums_up(batch):
    device = near("olmoe-1b-7b")
    found, step = parts(device, batch), device.probe(StepPlan.of(*[(1, 500)] * batch)).first
    layers, width, passed = 16, 2048, 2 * 15 / 16
    # Gathered before attention and before experts, scattered after attention, and after the last expert of a layer.
    last = 8 * batch * layers / step.expert_lookups
    values = (2 * batch + batch + last) * layers + batch
    assert found["ring"].link_bytes == pytest.approx(values * width * passed)
    assert max(found["ring"].times()) == pytest.approx(values * width * passed / RING)
    # What each expert's sums take while the next one is read.
    scattered = sum(found[f"{kind} experts"].link_bytes for kind in ("hot", "cold"))
    assert scattered == pytest.approx(8 * batch * layers * width * passed)


@given(models, st.integers(1, 32))
def test_reading_hides_the_reduce_scatters_of_small_batches(model, batch):
    device = near(model)
    experts = [part for name, part in parts(device, batch).items() if name.endswith("experts") and part.link_bytes]
    assert all(part.bound() == "HB" for part in experts)
    assert bool(experts) == bool(device.setup.model.experts)


def test_a_ring_a_thousandth_as_fast_shows():
    found = parts(near("olmoe-1b-7b", ring_gb_per_s=0.128), 32)
    assert found["hot experts"].bound() == found["cold experts"].bound() == "links"
    assert max(found["cold experts"].times()) == pytest.approx(found["cold experts"].link_bytes / (RING / 1000))


@examples(40)
@given(models, batches, st.floats(0.1, 1000), st.floats(1, 100))
def test_a_faster_ring_is_never_slower(model, batch, gb_per_s, times):
    plan = StepPlan.of(*[(1, 500)] * batch)
    slow, fast = (near(model, ring_gb_per_s=rate).probe(plan).first for rate in (gb_per_s, gb_per_s * times))
    assert fast.latency_s <= slow.latency_s / NEARLY
    assert fast.traffic == slow.traffic


@given(st.sampled_from(["olmoe-1b-7b", "mixtral-8x7b"]), batches)
def test_tokens_cross_the_interposer_twice_a_layer_to_each_chip_and_back(model, batch):
    device = near(model)
    spec, chips = device.setup.model, device.setup.hardware.chips
    weights = device.size.weights
    crossed = 2 * 2 * spec.layers * chips * batch * spec.hidden_size * 2
    own = (weights.norms + weights.router) * 2 + batch * spec.vocab_size * 2
    assert parts(device, batch)["norms, routers"].ext_bytes == pytest.approx(crossed + own)
    (stage,) = device.explain(StepPlan.of((1, 500)))
    assert stage.wait_s == pytest.approx((2 * spec.layers + 1) * device.setup.calibration.handover_s)


@given(batches)
def test_two_dies_bring_sums_over_the_bridge_twice_a_layer(batch):
    device = near("llama-4-scout")
    spec = device.setup.model
    bridge = parts(device, batch)["bridge"]
    assert bridge.link_bytes == 2 * spec.layers * batch * spec.hidden_size * 2
    assert max(bridge.times()) == pytest.approx(bridge.link_bytes / 450e9)


@given(batches, st.integers(2, 8))
def test_each_die_sends_no_less_than_adding_up_over_all_takes(batch, dies):
    """Twice what it does not keep: partial sums of the others' parts, and then the sum of its own to them."""
    two, more = (parts(near("llama-4-scout", dies=count), batch)["bridge"].link_bytes for count in (2, dies))
    assert more == pytest.approx(two * 2 * (dies - 1) / dies)

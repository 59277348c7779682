"""Do stretches that are remembered give the answers that are worked out, to the last digit, and only where they may?"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.device import RooflineDevice
from device_model.hb_xpu.tiered import TieredDevice
from device_model.load import load_device
from device_model.step import StepPlan
from device_model.stretches import FEW, KNOWN, STEPS, Stretches

DEVICES = {
    model: load_device("elmoe3d", "elmoe3d-8gb", model)
    for model in ("qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v2-lite")
}


@given(
    model=st.sampled_from(sorted(DEVICES)),
    context=st.lists(st.integers(0, 3000), min_size=1, max_size=FEW + 2),
    steps=st.integers(1, 3 * STEPS),
    share=st.sampled_from([None, 0.5]),
)
def test_a_stretch_is_what_would_be_worked_out(model: str, context: list[int], steps: int, share: float | None) -> None:
    device = DEVICES[model]
    plan = StepPlan.of(*[(1, tokens) for tokens in context])
    granted = share and share * device.ext_bytes_per_s
    worked_out = RooflineDevice.probe(device, plan, steps, granted)
    assert (device.probe(plan, steps, granted).table == worked_out.table).all()


def test_only_a_few_that_decode_plainly_are_covered() -> None:
    device = DEVICES["qwen3-30b-a3b"]
    assert isinstance(device, TieredDevice)
    assert device._stretches.cover(StepPlan.of((1, 7), (1, 9)))
    for sequences in ([], [(1, 7)] * (FEW + 1), [(1, 7), (2, 9)], [(1, -1)]):
        assert not device._stretches.cover(StepPlan.of(*sequences))
    assert not device._stretches.cover(dataclasses.replace(StepPlan.of((1, 7)), topics=np.array([0])))


def test_a_context_below_0_is_still_an_error() -> None:
    with pytest.raises(ValueError, match="context below 0"):
        DEVICES["qwen3-30b-a3b"].probe(StepPlan.of((1, -1), (1, 5)), 4)


def test_what_is_remembered_is_bounded() -> None:
    device = DEVICES["qwen3-30b-a3b"]
    stretches = Stretches(lambda plan, steps, rate: RooflineDevice.probe(device, plan, steps, rate))
    for tokens in range(KNOWN + 10):
        stretches.probe(StepPlan.of((1, tokens * STEPS)), 2, None)
    assert len(stretches._known) == KNOWN
    again = stretches.probe(StepPlan.of((1, 0)), 2, None).table
    assert np.array_equal(again, RooflineDevice.probe(device, StepPlan.of((1, 0)), 2).table)

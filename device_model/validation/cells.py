"""Cells of ELMoE-3D's Table 3, predicted."""

from functools import lru_cache

from device_model.acceptance import batch_plan
from device_model.hb_xpu.tiered import TieredDevice
from device_model.load import load_setup, make_device
from device_model.setup import XpuSetup
from device_model.step import DraftShape, StepPlan
from device_model.validation.table3 import SCHEMES, Cell


def setup_of(cell: Cell) -> XpuSetup:
    """Return the setup from which the device of a cell is made, as calibrated. Raise DeviceError."""
    return _setup(cell.hardware, cell.model)


@lru_cache
def _setup(hardware: str, model: str) -> XpuSetup:
    """Read once: a table has many cells of each."""
    return load_setup(hardware, model)


def predict(cell: Cell, setup: XpuSetup) -> tuple[float, float]:
    """Return the speedups in AR and SD mode of a cell under `setup`, which is that of its hardware and target.

    phi_sd = T_xPU (1 + accepted) / T_step, with alpha as accepted draft tokens / depth, and every sequence one bonus
    token (ELMoE-3D, 2.2).
    """
    draft, shape = drafting_device(cell, setup)
    plan = batch_plan(cell.batch)
    base_s = float(make_device("xpu", setup).probe(plan).latency_s[0])
    ar_s = float(draft.probe(plan).latency_s[0])
    sd_s = float(draft.probe(StepPlan(plan.new_tokens, plan.context, shape)).latency_s[0])
    return base_s / ar_s, base_s / sd_s * (1 + cell.alpha * shape.depth)


def drafting_device(cell: Cell, setup: XpuSetup) -> tuple[TieredDevice, DraftShape]:
    """Return ELMoE-3D with the draft scheme of a cell, and the shape of its drafts."""
    device = make_device("elmoe3d", setup, SCHEMES[cell.draft])
    assert isinstance(device, TieredDevice) and device.draft is not None
    return device, device.draft.shape

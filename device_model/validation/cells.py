"""Cells of ELMoE-3D's Table 3, predicted."""

from functools import lru_cache
from typing import NamedTuple

from device_model.acceptance import batch_plan
from device_model.hb_xpu.tiered import TieredDevice
from device_model.load import load_setup, make_device
from device_model.setup import XpuSetup
from device_model.specs.law import Law
from device_model.step import DraftShape, StepPlan
from device_model.validation.table3 import SCHEMES, Cell


class CellPrediction(NamedTuple):
    """A cell with its speedups in AR and SD mode as predicted, and the experts that HB serves in a step of AR, each of
    one layer."""

    cell: Cell
    phi_ar: float
    phi_sd: float
    hits_ar: float


def setup_of(cell: Cell, law: Law = Law.REALISABLE) -> XpuSetup:
    """Return the setup from which the device of a cell is made, as calibrated. Raise DeviceError."""
    return _setup(cell.hardware, cell.model, law)


@lru_cache
def _setup(hardware: str, model: str, law: Law) -> XpuSetup:
    """Read once: a table has many cells of each."""
    return load_setup(hardware, model, law)


def predicted(cell: Cell, setup: XpuSetup) -> CellPrediction:
    """Return the prediction of a cell under `setup`, which is that of its hardware and target.

    phi_sd = T_xPU (1 + accepted) / T_step, with alpha as accepted draft tokens / depth, and every sequence one bonus
    token (ELMoE-3D, 2.2).
    """
    device, shape = drafting_device(cell, setup)
    plan = batch_plan(cell.batch)
    base_s = float(make_device("xpu", setup).probe(plan).latency_s[0])
    plain = device.probe(plan).first
    sd_s = float(device.probe(StepPlan(plan.new_tokens, plan.context, shape)).latency_s[0])
    phi_sd = base_s / sd_s * (1 + cell.alpha * shape.depth)
    return CellPrediction(cell, base_s / plain.latency_s, phi_sd, plain.expert_hits)


def drafting_device(cell: Cell, setup: XpuSetup) -> tuple[TieredDevice, DraftShape]:
    """Return ELMoE-3D with the draft scheme of a cell, and the shape of its drafts."""
    device = make_device("elmoe3d", setup, SCHEMES[cell.draft])
    assert isinstance(device, TieredDevice) and device.draft is not None
    return device, device.draft.shape

"""Everything that a device is made from: the specs and calibrations that its name stands for."""

from dataclasses import dataclass

from device_model.specs.calibrated import Locality, Speculation
from device_model.specs.hardware import Hardware
from device_model.specs.kinds import hb_xpu
from device_model.specs.law import Law
from device_model.specs.spec import EnergyEstimate, Model


@dataclass(frozen=True, slots=True)
class Setup:
    """One model on one piece of hardware, of any kind. `target` is the name of the model's spec."""

    target: str
    hardware: Hardware
    model: Model


@dataclass(frozen=True, slots=True)
class XpuSetup(Setup):
    """The same on an xPU, with what is calibrated of either under a law; `slm` is the model that SLM-SD drafts
    with."""

    hardware: hb_xpu.Hardware
    locality: Locality
    speculation: Speculation
    estimate: EnergyEstimate
    slm: Model
    law: Law = Law.REALISABLE

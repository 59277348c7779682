"""Everything that a device is made from: the specs and calibrations that its name stands for."""

from dataclasses import dataclass

from device_model.specs.calibrated import Locality, Speculation
from device_model.specs.spec import EnergyEstimate, Hardware, Model


@dataclass(frozen=True, slots=True)
class Setup:
    """One model on one piece of hardware. `target` is the name of the model's spec; `slm` the model that SLM-SD drafts
    with."""

    target: str
    hardware: Hardware
    model: Model
    locality: Locality
    speculation: Speculation
    estimate: EnergyEstimate
    slm: Model

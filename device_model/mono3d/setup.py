"""Setup of a device on monolithic 3D DRAM: hardware, model and calibration."""

from dataclasses import dataclass

from device_model.setup import Setup
from device_model.specs.calibrated import Mono3dCalibration
from device_model.specs.kinds import mono3d


@dataclass(frozen=True, slots=True)
class Mono3dSetup(Setup):
    """A model on such hardware, and what its paper leaves open."""

    hardware: mono3d.Hardware
    calibration: Mono3dCalibration

"""Loads a device by the names of its files: a system (`systems/`), hardware and a model (`specs/`)."""

from importlib import import_module
from pathlib import Path

from device_model.device import RooflineDevice
from device_model.spec import EnergyEstimate, Hardware, Locality, Model
from device_model.spec_file import SPECS, check_name, read_named

SYSTEMS = Path(__file__).parent / "systems"


def load_device(system: str, hardware: str, model: str) -> RooflineDevice:
    """The device model of `model` served by `system` on `hardware`.

    Raises SpecError: a name without a file (the message lists those that exist), a bad file, or a model that does not
    fit into the memory of the hardware.
    """
    check_name(system, "system", SYSTEMS, suffix=".py")
    platform = read_named(Hardware, "hardware", hardware, SPECS / "hardware")
    target = read_named(Model, "model", model, SPECS / "models")
    estimate = read_named(EnergyEstimate, "calibration", platform.energy_estimate, SPECS / "calibration")
    locality = read_named(Locality, "calibration", target.calibration, SPECS / "calibration")
    device: RooflineDevice = import_module(f"device_model.systems.{system}").Device(
        platform, target, locality, estimate
    )
    return device

"""Loads a device by the names of its files: a system (`systems/`), hardware and a model (`specs/`), a draft scheme."""

from importlib import import_module
from pathlib import Path

from device_model.calibrated import Locality, Speculation
from device_model.device import RooflineDevice
from device_model.draft import Draft
from device_model.hardware import load_hardware
from device_model.setup import Setup
from device_model.spec import EnergyEstimate, Model
from device_model.spec_file import SPECS, check_name, read_named
from device_model.tiered import refuse_draft

SYSTEMS = Path(__file__).parent / "systems"
DRAFTS = Path(__file__).parent / "drafts"
SLM = "qwen2.5-1.5b"


def load_device(system: str, hardware: str, model: str, draft: str | None = None) -> RooflineDevice:
    """The device model of `model` served by `system` on `hardware`, speculating with `draft` if one is named.

    Raises SpecError: a name without a file (the message lists those that exist), a bad file, a scheme that the system
    can't run, or a model that does not fit into the memory of the hardware.
    """
    return make_device(system, load_setup(hardware, model), draft)


def load_setup(hardware: str, model: str) -> Setup:
    """The specs and calibrations of a model on some hardware. Raises SpecError."""
    platform = load_hardware(hardware)
    target = read_named(Model, "model", model, SPECS / "models")
    calibration = SPECS / "calibration"
    return Setup(
        target=model,
        hardware=platform,
        model=target,
        locality=read_named(Locality, "calibration", target.calibration, calibration),
        speculation=read_named(Speculation, "calibration", platform.speculation, calibration),
        estimate=read_named(EnergyEstimate, "calibration", platform.energy_estimate, calibration),
        slm=read_named(Model, "model", SLM, SPECS / "models"),
    )


def make_device(system: str, setup: Setup, draft: str | None = None) -> RooflineDevice:
    """A device of what has been loaded, or fitted. Raises SpecError."""
    check_name(system, "system", SYSTEMS, suffix=".py")
    device = import_module(f"device_model.systems.{system}").Device
    if draft is None:
        made: RooflineDevice = device(setup)
        return made
    check_name(draft, "draft scheme", DRAFTS, suffix=".py")
    if draft not in device.drafts:
        raise refuse_draft(system, draft, device.drafts)
    scheme: Draft = import_module(f"device_model.drafts.{draft}").Scheme(setup)
    speculating: RooflineDevice = device(setup, scheme)
    return speculating

"""Loads a device by the names of its files: a system (`systems/`), hardware and a model (`specs/`), a draft scheme."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np

from device_model.calibrated import Locality, Speculation
from device_model.condition import SOUND, Condition
from device_model.device import RooflineDevice
from device_model.draft import Draft
from device_model.fidelity import Trace
from device_model.hardware import load_hardware
from device_model.pools import HotPool, RandomPool
from device_model.residency import Lru, Residency
from device_model.setup import Setup
from device_model.spec import EnergyEstimate, Hardware, Model, SpecError
from device_model.spec_file import SPECS, check_name, read_named
from device_model.tiered import TieredDevice, refuse_draft

SYSTEMS = Path(__file__).parent / "systems"
DRAFTS = Path(__file__).parent / "drafts"
SLM = "qwen2.5-1.5b"


def load_device(
    system: str, hardware: str, model: str, draft: str | None = None, condition: Condition = SOUND
) -> RooflineDevice:
    """The device model of `model` served by `system` on `hardware`, speculating with `draft` if one is named, in some
    `condition`.

    Raises SpecError: a name without a file (the message lists those that exist), a bad file, a scheme that the system
    can't run, or a model that does not fit into the memory of the hardware.
    """
    setup = load_setup(hardware, model)
    return make_device(system, replace(setup, hardware=worn(setup.hardware, condition)), draft)


def worn(hardware: Hardware, condition: Condition) -> Hardware:
    """Hardware in some condition."""
    return replace(
        hardware,
        int8_tops=hardware.int8_tops * condition.clock_share,
        int4_tops=hardware.int4_tops * condition.clock_share,
        hb_capacity_gib=hardware.hb_capacity_gib * condition.hb_share,
        hb_gb_per_s=hardware.hb_gb_per_s * condition.hb_share,
        ext_gb_per_s=hardware.ext_gb_per_s * condition.ext_share,
    )


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


def trace_experts(device: RooflineDevice, draft: str | None = None, seed: int = 0) -> None:
    """Give a device with an expert cache a real one in place of the analytic law: an LRU, or the pool of a `draft` that
    has one ("elastic", "random", drawn from `seed`). Its plans must have routes from now on, and steps be committed.

    SpecError for a system or a model that has no experts in a cache.
    """
    model = device.setup.model
    if not isinstance(device, TieredDevice) or not model.experts:
        raise SpecError("Only systems with HB, serving a model with experts, have an expert cache that can be traced.")
    layers, experts = model.expert_layers, model.experts
    residency: Residency = Lru(layers, experts)
    if draft == "elastic":
        residency = HotPool(layers, experts)
    elif draft == "random":
        residency = RandomPool(layers, experts, 0, np.random.default_rng(seed))
    device.cache = Trace(residency)


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

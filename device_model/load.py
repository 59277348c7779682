"""Loads a device by the names of its files: a system (`systems/`), hardware and a model (`specs/`), a draft scheme."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from device_model.condition import HEALTHY, Condition
from device_model.device import RooflineDevice
from device_model.draft import Draft
from device_model.experts.fidelity import TracedCache
from device_model.experts.hot_pool import HotExperts
from device_model.experts.residency import Lru
from device_model.experts.route_map import Routers
from device_model.experts.topic_usage import TopicUsage
from device_model.setup import Setup
from device_model.specs.calibrated import Locality, Speculation
from device_model.specs.hardware_file import load_hardware
from device_model.specs.spec import DeviceError, EnergyEstimate, Model
from device_model.specs.spec_file import SPECS, check_name, read_named
from device_model.tiered import TieredDevice, refuse_draft

SYSTEMS = Path(__file__).parent / "systems"
DRAFTS = Path(__file__).parent / "drafts"
SLM = "qwen2.5-1.5b"
# ELMoE-3D's platforms and the draft that each speculates with (7, Accelerator Baselines).
OWN_DRAFTS = {
    "xpu": None,
    "pim": "eagle",
    "logicpim": "eagle",
    "nmp": "eagle",
    "hb_xpu": "eagle",
    "elmoe3d": "elastic",
}


def load_device(
    system: str, hardware: str, model: str, draft: str | None = None, condition: Condition = HEALTHY
) -> RooflineDevice:
    """The device model of `model` served by `system` on `hardware`, speculating with `draft` if one is named.

    Raises SpecError for a name without a file (the message lists those that exist) or a bad file; DeviceError for a
    scheme that the system can't run, a model that does not fit into the memory of the hardware, or lost HB banks of a
    system without HB.
    """
    setup = load_setup(hardware, model)
    device = make_device(system, replace(setup, hardware=condition.of(setup.hardware)), draft)
    if condition.hb_share < 1 and not device.hb.capacity_bytes:
        raise DeviceError(f"hb_share is {condition.hb_share}; the system {system!r} has no HB, and 1 is all it allows.")
    return device


def load_setup(hardware: str, model: str) -> Setup:
    """The specs and calibrations of a model on some hardware. Raises DeviceError."""
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


def trace_experts(device: RooflineDevice) -> None:
    """Give a device with an expert cache a real one, an LRU, in place of the analytic law. Its plans must have routes
    from now on, and steps be committed.

    DeviceError for a system or a model that has no experts in a cache.
    """
    model = device.setup.model
    if not isinstance(device, TieredDevice) or not model.experts:
        raise DeviceError(
            "Only systems with HB, serving a model with experts, have an expert cache that can be traced."
        )
    device.cache = TracedCache(Lru(model.expert_layers, model.experts))


def know_topics(device: RooflineDevice, usage: TopicUsage) -> None:
    """Let plans for a device say by topic which experts HB holds: its experts are used as `usage` has it.

    DeviceError for a system or a model that has no experts in HB, or a draft that says by itself what lies there.
    """
    model, draft = device.setup.model, device.draft
    if not isinstance(device, TieredDevice) or not device.hb.capacity_bytes or not model.experts:
        raise DeviceError("Only systems with HB, serving a model with experts, can have these placed by topic.")
    if draft is not None and draft.chooses:
        raise DeviceError(f"{draft.published} fills HB as it needs it; experts can't be placed by topic beside it.")
    device.hot = HotExperts(usage, Routers(model.expert_layers, model.experts, model.top_k))


def make_device(system: str, setup: Setup, draft: str | None = None) -> RooflineDevice:
    """A device of what has been loaded, or fitted. Raises DeviceError."""
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

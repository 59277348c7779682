"""Loads a device by the names of its files: a system (`systems/`), hardware and a model (`specs/`), a draft scheme."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from device_model.condition import HEALTHY, Condition
from device_model.device import RooflineDevice
from device_model.draft import Draft
from device_model.experts.residency import Lru
from device_model.experts.traced_cache import TracedCache, drawn_order
from device_model.hb_xpu.device import XpuDevice, under
from device_model.hb_xpu.tiered import refuse_draft
from device_model.setup import Setup, XpuSetup
from device_model.specs.hardware_file import FOLDER, OWN, load_hardware, load_xpu
from device_model.specs.law import Law
from device_model.specs.spec import DeviceError, Model, UnknownName
from device_model.specs.spec_file import SPECS, check_name, has_name, names_in, read_named

SYSTEMS = Path(__file__).parent / "systems"
DRAFTS = Path(__file__).parent / "drafts"


def load_device(
    system: str,
    hardware: str,
    model: str,
    draft: str | None = None,
    condition: Condition = HEALTHY,
    law: Law = Law.REALISABLE,
) -> RooflineDevice:
    """Return the device model of `model` served by `system` ("auto": the one that the hardware's file names) on
    `hardware`, speculating with `draft` if one is named, under a `law` of expert caches where it is ELMoE-3D's.

    Raise UnknownName for a name without a file (the message lists those that exist), SpecError for a bad file;
    DeviceError for a system that does not run on hardware of this kind, a scheme that the system can't run, a model
    that does not fit into the memory of the hardware, or lost banks of a system without any.
    """
    _check_system(system, also=(OWN,))
    platform = load_hardware(hardware)
    system = platform.system if system == OWN else system
    made = _class_of(system)
    if platform.kind != made.kind:
        raise DeviceError(
            f"The system {system!r} runs on hardware of the kind {made.kind}, and {hardware} is of the kind "
            f"{platform.kind}; allowed are {', '.join(systems_on(platform.kind))}, or none: it names its own."
        )
    setup = made.setup_of(model, condition.of(platform), load_model(model))
    if isinstance(setup, XpuSetup):
        setup = under(setup, law)
    device = make_device(system, setup, draft)
    if condition.hb_share < 1 and not device.hb.capacity_bytes:
        raise DeviceError(f"hb_share is {condition.hb_share}; the system {system!r} has no HB, and 1 is all it allows.")
    return device


def load_model(name: str) -> Model:
    """Return the spec of a model. Raise UnknownName or SpecError."""
    return read_named(Model, "model", name, SPECS / "models")


def load_setup(hardware: str, model: str, law: Law = Law.REALISABLE) -> XpuSetup:
    """Return the specs and calibrations of a model on ELMoE-3D's hardware, under a law. Raise DeviceError."""
    return under(XpuDevice.setup_of(model, load_xpu(hardware), load_model(model)), law)


def trace_experts(device: RooflineDevice, seed: int = 0) -> None:
    """Give a device with an expert cache a real one in place of the analytic law: an LRU, or a draft's pool. Its plans
    must have routes from now on, and steps be committed. A random pool follows from `seed`.

    DeviceError for a system or a model that has no experts in a cache.
    """
    model = device.setup.model
    if device.cache is None or not model.experts:
        raise DeviceError(
            "Only systems that cache experts, serving a model with experts, have an expert cache that can be traced: "
            "elmoe3d has one, of qwen3-30b-a3b, and here nothing is cached."
        )
    size = model.expert_layers, model.experts
    drawn = drawn_order(*size, np.random.default_rng(seed)) if device.draft is not None and device.draft.drawn else None
    device.cache = TracedCache(Lru(*size), drawn)
    device.forget()


def make_device(system: str, setup: Setup, draft: str | None = None) -> RooflineDevice:
    """Return a device of what has been loaded, or fitted. Raise DeviceError if there can be none."""
    device = _class_of(system)
    if draft is None:
        made: RooflineDevice = device(setup)
        return made
    check_name(draft, "draft scheme", DRAFTS, suffix=".py")
    if draft not in device.drafts:
        raise refuse_draft(system, draft, device.drafts)
    scheme: Draft = import_module(f"device_model.drafts.{draft}").Scheme(setup)
    speculating: RooflineDevice = device(setup, scheme)
    return speculating


def systems_on(kind: str) -> list[str]:
    """Return the systems that run on hardware of a kind."""
    return [name for name in names_in(SYSTEMS, ".py") if _class_of(name).kind == kind]


def places_experts(system: str) -> bool:
    """Tell whether a system gives experts places of their own (`RooflineDevice.places_experts`); False for one that is
    unknown."""
    made = _class_if_known(system)
    return made is not None and bool(made.places_experts)


def own_draft(system: str) -> str | None:
    """Return the draft scheme that a system speculates with in its paper; None for none, and for an unknown system."""
    made = _class_if_known(system)
    return None if made is None else made.own_draft


def obeys_laws(system: str) -> bool:
    """Tell whether a law says which experts a system reads, as of ELMoE-3D's platforms; False for an unknown one."""
    made = _class_if_known(system)
    return made is not None and issubclass(made, XpuDevice)


def systems_with_laws() -> list[str]:
    """Return the systems whose expert reads obey a law."""
    return [name for name in names_in(SYSTEMS, ".py") if obeys_laws(name)]


def _class_if_known(system: str) -> type[RooflineDevice] | None:
    return _class(system) if has_name(SYSTEMS, system, ".py") else None


def _class(system: str) -> Any:
    return import_module(f"device_model.systems.{system}").Device


def _class_of(system: str) -> Any:
    _check_system(system)
    return _class(system)


def _check_system(system: str, also: tuple[str, ...] = ()) -> None:
    if system in also or has_name(SYSTEMS, system, ".py"):
        return
    if system in names_in(FOLDER):
        raise UnknownName(
            f"There is no system {system!r}. It is hardware, whose file names its system: leave `system` out, and name "
            f"{system!r} as `hardware`.",
            "system",
        )
    check_name(system, "system", SYSTEMS, ".py", also)

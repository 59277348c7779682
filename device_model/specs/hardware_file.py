"""Hardware by name: a file in specs/hardware, a size between two of ELMoE-3D's, or Stratum's with other layers."""

import os
import re
from dataclasses import fields, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from device_model.specs.file_state import FileState
from device_model.specs.hardware import Hardware, TierNames
from device_model.specs.kinds import hb_xpu, mono3d
from device_model.specs.nearest_name import hint, nearest
from device_model.specs.spec import DeviceError, SpecError, UnknownName
from device_model.specs.spec_file import (
    SPECS,
    has_name,
    names_in,
    path_of,
    read_named,
    read_spec,
    read_word,
    refuse_key,
    unknown,
)

FOLDER = SPECS / "hardware"
KINDS = SPECS / "kinds"
SUFFIX = ".toml"
OWN = "auto"
"""What stands for the system that a hardware file names."""
BETWEEN = re.compile(r"elmoe3d-(\d+(?:\.\d+)?)gb")
LOW_GIB, HIGH_GIB = 4, 8
# Banks and PEs come in pairs, 16 to 4 GB (ELMoE-3D, Table 1): sizes between go by one bank.
BANK_GIB = 0.25
VARIANTS = (
    f"there are ELMoE-3D's sizes from {LOW_GIB} to {HIGH_GIB} GB in steps of {BANK_GIB} GB, as elmoe3d-6gb, and "
    "Stratum with other layers or without tiers, as stratum-l-256 and stratum-s-512-flat"
)
"""Names without a file of their own, in words."""
OWN_FILE = "./NAME.toml"
"""How hardware of one's own is named."""


def find_hardware(name: str) -> Hardware | None:
    """Return the hardware called `name`, of the kind that its file says; None if there is none. `elmoe3d-6gb`, say,
    lies between the published 4 and 8 GB, whose compute and bandwidth grow with their banks; `stratum-l-256-flat` is
    stratum-l with 256 layers and no tiers; a name that ends in .toml is a file of yours. Raise SpecError for a bad
    file."""
    if is_file(name):
        return _parse(Path(name)) if os.path.isfile(name) else None  # False for what can be no path, too
    if has_name(FOLDER, name):
        return _as_it_is(path_of(name, FOLDER))
    if match := BETWEEN.fullmatch(name):
        return _of_size(float(match[1]))
    variants = (
        _variant(base, name.removeprefix(f"{base}-")) for base in names_in(FOLDER) if name.startswith(f"{base}-")
    )
    return next((variant for variant in variants if variant), None)


def is_file(name: str) -> bool:
    """Tell whether `name` is that of a file, rather than of hardware that there is."""
    return name.endswith(SUFFIX)


def load_hardware(name: str) -> Hardware:
    """Return the hardware that `find_hardware` finds. Raise UnknownName if there is none, SpecError for a bad file."""
    found = find_hardware(name)
    if found is None and is_file(name):
        allowed = f"the path of a file, such as {OWN_FILE}, or a name without {SUFFIX}"
        raise UnknownName(f"There is no file {name!r} of hardware; allowed is {allowed}.", "hardware")
    if found is None:
        sizes = (
            f", and ELMoE-3D's sizes from {LOW_GIB} to {HIGH_GIB} GB in steps of {BANK_GIB} GB (a bank)"
            if BETWEEN.fullmatch(name)
            else ""
        )
        raise unknown("hardware", name, names_in(FOLDER), sizes, f"; or a file of yours, by its path: {OWN_FILE}")
    return found


def load_xpu(name: str) -> hb_xpu.Hardware:
    """Return the hardware called `name`, of ELMoE-3D's kind. Raise DeviceError for any other."""
    hardware = load_hardware(name)
    if not isinstance(hardware, hb_xpu.Hardware):
        raise DeviceError(f"{name} is of the kind {hardware.kind}; allowed is {hb_xpu.KIND} here.")
    return hardware


def system_of(system: str, hardware: str) -> str:
    """Return the system that serves models on `hardware`: `system`, or ("auto") the one that its file names; "auto"
    still if there is no such hardware, as whoever loads it will say."""
    found = find_hardware(hardware) if system == OWN else None
    return found.system if found else system


def tiers_of_kinds() -> list[TierNames]:
    """Return what each kind of hardware calls its memory tiers."""
    return [_module(name).Hardware.tiers for name in names_in(KINDS, ".py")]


def _as_it_is(path: Path) -> Hardware:
    """Return the hardware of a file, which is read again once it has changed, as a user's own does."""
    return _read(path, FileState.of(path))


@lru_cache(maxsize=256)
def _read(path: Path, state: FileState | None) -> Hardware:
    return _parse(path)


def _parse(path: Path) -> Hardware:
    kind = read_word(path, "kind", hb_xpu.KIND)
    kinds = [name.replace("_", "-") for name in names_in(KINDS, ".py")]
    if kind not in kinds:
        refuse_key(
            path, "kind", f"kind is {kind!r}{hint(nearest(kind, kinds), mark='')}; allowed are {', '.join(kinds)}"
        )
    hardware: Hardware = read_spec(_module(kind.replace("-", "_")).Hardware, path)
    return hardware


def _module(kind: str) -> ModuleType:
    return import_module(f"device_model.specs.kinds.{kind}")


def _variant(base: str, name: str) -> Hardware | None:
    hardware = _as_it_is(path_of(base, FOLDER))
    try:
        return hardware.variant(name) if isinstance(hardware, mono3d.Hardware) else None
    except SpecError as error:
        raise SpecError(f"There is no hardware '{base}-{name}': {error}") from error


@lru_cache(maxsize=256)
def _of_size(size: float) -> hb_xpu.Hardware | None:
    if not (LOW_GIB < size < HIGH_GIB and (size / BANK_GIB).is_integer()):
        return None
    low, high = (read_named(hb_xpu.Hardware, "hardware", f"elmoe3d-{gib}gb", FOLDER) for gib in (LOW_GIB, HIGH_GIB))
    return _between(low, high, (size - LOW_GIB) / (HIGH_GIB - LOW_GIB))


def _between(low: hb_xpu.Hardware, high: hb_xpu.Hardware, share: float) -> hb_xpu.Hardware:
    figures = {}
    for field in fields(hb_xpu.Hardware):
        small, large = getattr(low, field.name), getattr(high, field.name)
        if not isinstance(small, str):
            figures[field.name] = type(small)(small + (large - small) * share)
    return replace(low, **figures)

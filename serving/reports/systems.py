"""`foreserve systems`: the hardware that can be emulated, what serves models on it, and how close that is."""

from typing import Any, NamedTuple

from rich.console import Console

from device_model.load import load_device, systems_on
from device_model.specs.hardware_file import FOLDER, OWN, VARIANTS, load_hardware
from device_model.specs.spec import DeviceError
from device_model.specs.spec_file import SPECS, documents_of, names_in, path_of
from device_model.validation.figures import SCORE, errors_by_role
from device_model.validation.papers import figures_of
from device_model.validation.papers import systems as validated
from serving.presentation.table import Table


class HardwareEntry(NamedTuple):
    """A piece of hardware: the system that its file names, others that run on its kind, its tiers, the models that fit,
    and the documents that its figures are from."""

    hardware: str
    system: str
    others: list[str]
    kind: str
    tiers: list[str]
    models: list[str]
    sources: list[str]


class SystemErrors(NamedTuple):
    """The mean relative error in percent of a system's scored figures, those that constants were fitted to apart."""

    system: str
    fitted_figures: int
    fitted_percent: float | None
    unfitted_figures: int
    unfitted_percent: float | None


class Systems(NamedTuple):
    """All hardware that has a file, and the errors of each system whose paper's figures are predicted."""

    hardware: list[HardwareEntry]
    errors: list[SystemErrors]


def systems() -> Systems:
    """Return what there is."""
    return Systems([_entry(name) for name in names_in(FOLDER)], [_error(system) for system in validated()])


def to_json(found: Systems) -> dict[str, Any]:
    """Return `hardware` and `errors`."""
    return {name: [each._asdict() for each in entries] for name, entries in found._asdict().items()}


def show(found: Systems, console: Console) -> None:
    """Print the hardware, what runs on it, and where its figures are from."""
    by_system = {error.system: _told(error) for error in found.errors}
    rows = [
        [
            e.hardware,
            e.system,
            ", ".join(e.others),
            " ".join(e.tiers),
            by_system.get(e.system, "-"),
            ", ".join(e.models),
        ]
        for e in found.hardware
    ]
    heads = ["hardware", "system", "or", "tiers", "mean error % (of figures)", "models that fit"]
    console.print(Table(heads, rows, words=range(6)))
    console.print(f"Beside these {VARIANTS}.")
    console.print()
    console.print(
        Table(["hardware", "figures from"], [[e.hardware, "; ".join(e.sources)] for e in found.hardware], words=(0, 1))
    )


def _entry(name: str) -> HardwareEntry:
    hardware = load_hardware(name)
    return HardwareEntry(
        hardware=name,
        system=hardware.system,
        others=[system for system in systems_on(hardware.kind) if system != hardware.system],
        kind=hardware.kind,
        tiers=list(hardware.tiers),
        models=[model for model in names_in(SPECS / "models") if _fits(name, model)],
        sources=documents_of(path_of(name, FOLDER)),
    )


def _fits(hardware: str, model: str) -> bool:
    try:
        return load_device(OWN, hardware, model).kv_capacity_tokens > 0
    except DeviceError:
        return False


def _error(system: str) -> SystemErrors:
    scored = {e.fitted: e for e in errors_by_role(figures_of(system)) if e.role == SCORE}
    fitted, unfitted = scored.get(True), scored.get(False)
    return SystemErrors(
        system,
        fitted.figures if fitted else 0,
        fitted.mean if fitted else None,
        unfitted.figures if unfitted else 0,
        unfitted.mean if unfitted else None,
    )


def _told(error: SystemErrors) -> str:
    parts = (
        ("fitted", error.fitted_figures, error.fitted_percent),
        ("unfitted", error.unfitted_figures, error.unfitted_percent),
    )
    return ", ".join(f"{percent:.1f} ({count} {what})" for what, count, percent in parts if percent is not None)

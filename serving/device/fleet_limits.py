"""Loads the devices of a scenario, and checks what they can hold together and which faults they can suffer."""

from collections.abc import Iterable

from device_model.specs.spec import DeviceError
from serving.device.device_spec import DeviceLimits, DeviceSpec, check_shared
from serving.device.traced_pricing import check_trace
from serving.scenario.faults import LOST
from serving.scenario.fleet import FleetError
from serving.scenario.scenario import Scenario


def context_held(scenario: Scenario, fleet: Iterable[tuple[DeviceSpec, DeviceLimits]]) -> int:
    """Return the tokens that a request may have, prompt and output, on any device."""
    held = (min(device_limits.max_context_tokens, device_limits.kv_capacity_tokens) for _, device_limits in fleet)
    return min(scenario.max_model_len, *held)


def load_fleet(scenario: Scenario) -> list[tuple[DeviceSpec, DeviceLimits]]:
    """Return each device's spec and limits. Raise DeviceError or UsageError."""
    known: dict[DeviceSpec, DeviceLimits] = {}
    fleet = [DeviceSpec.of(scenario, member) for member in scenario.members]
    for spec in fleet:
        if spec not in known:
            step_options = spec.load()
            spec.mode_choice.modes(step_options)
            known[spec] = spec.device_limits(step_options)
            if spec.trace is not None:
                check_trace(spec.trace)
    check_shared([known[spec].ext_bytes_per_s for spec in fleet], scenario.shared_ext)
    return [(spec, known[spec]) for spec in fleet]


def check_faults(scenario: Scenario, fleet: list[DeviceSpec]) -> None:
    """Raise FleetError for faults that could never happen."""
    for text, fault in zip(scenario.faults, scenario.fault_specs, strict=True):
        what = f"An entry of `faults`, {text!r},"
        if fault.device is not None and fault.device >= len(fleet):
            raise FleetError(f"{what} names device {fault.device}; there are {len(fleet)}.", "faults")
        if fault.kind == LOST and len(fleet) == 1:
            raise FleetError(f"{what} would leave no device: it needs at least 2.", "faults")
        for spec in set(fleet if fault.device is None else fleet[fault.device : fault.device + 1]):
            try:
                spec.suffering(fault).load()
            except DeviceError as error:
                raise FleetError(f"{what} can't be on {spec.hardware}: {error}", "faults") from error

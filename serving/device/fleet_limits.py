"""Loads the devices of a scenario, and checks what they can hold together and which faults they can suffer."""

from collections.abc import Iterable

from device_model.specs.spec import DeviceError
from serving.device.device_spec import DeviceLimits, DeviceSpec, check_shared
from serving.device.traced_pricing import check_trace
from serving.policies.step_options import StepOptions
from serving.scenario.faults import LOST
from serving.scenario.fleet import FleetError
from serving.scenario.scenario import Scenario
from serving.usage_error import UsageError


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
            spec.mode_choice.modes(step_options, step_options)
            known[spec] = spec.device_limits(step_options)
            if spec.trace is not None:
                check_trace(spec.trace)
    check_shared([known[spec].ext_bytes_per_s for spec in fleet], scenario.shared_ext)
    return [(spec, known[spec]) for spec in fleet]


def limits_in_condition(spec: DeviceSpec, step_options: StepOptions, context: int) -> DeviceLimits:
    """Return the limits of a device that has left its best condition. Raise UsageError as `check_context` does."""
    device_limits = spec.device_limits(step_options)
    check_context(device_limits, context)
    return device_limits


def check_context(device_limits: DeviceLimits, context: int) -> None:
    """Raise UsageError if a device has less room than for the `context` that each request was promised."""
    held = min(device_limits.kv_capacity_tokens, device_limits.max_context_tokens)
    if held < context:
        raise UsageError(f"Such a device holds {held} tokens of context, and clients were promised {context}.")


def check_faults(scenario: Scenario, fleet: list[DeviceSpec], context: int) -> None:
    """Raise FleetError for faults that could never happen, as where devices keep too little room for the `context` that
    a request is promised."""
    for text, fault in zip(scenario.faults, scenario.fault_specs, strict=True):
        what = f"An entry of `faults`, {text!r},"
        if fault.device is not None and fault.device >= len(fleet):
            raise FleetError(f"{what} names device {fault.device}; there are {len(fleet)}.", "faults")
        if fault.kind == LOST and len(fleet) == 1:
            raise FleetError(f"{what} would leave no device: it needs at least 2.", "faults")
        for spec in set(fleet if fault.device is None else fleet[fault.device : fault.device + 1]):
            try:
                suffering = spec.suffering(fault)
                limits_in_condition(suffering, suffering.load(), context)
            except (DeviceError, UsageError) as error:
                raise FleetError(f"{what} can't be on {spec.hardware}: {error}", "faults") from error
